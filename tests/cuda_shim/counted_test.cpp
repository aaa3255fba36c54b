// Compares the kernels' memory accesses with kernels/counted.txt. The environment variable
// HIDUP_WRITE_COUNTED writes the table anew.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "counted.h"

namespace hidup::kernels::testing {
namespace {

constexpr double kMost = 1.1;  // the limit without a reason
constexpr const char* kFigures[] = {"bytes", "read", "written", "spread", "banks"};
constexpr double kWorse = 0.006;  // for figures with two decimals

const char* const kHeading =
    R"(# What each launch function does with memory, as counted in the CUDA kernels on tests/cuda_shim. A warp's
# request touches sectors of 32 bytes. bytes: those of all sectors that are touched, over those of the
# operands, each once; read and written: likewise apart. No cache is counted. spread: sectors over those
# that the bytes of each request would fill. banks: accesses to shared memory (wavefronts) over those
# without bank conflicts. -: none. Figures may only shrink; where bytes, spread or banks are above 1.1
# there is a reason. Made by: tests/runs/counted_kernels.sh --table
)";

double ratio(int64_t a, int64_t b) {
  return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
}

std::string figure(double value) {
  return value == 0.0 ? "-" : fmt::format("{:.2f}", value);
}

std::string text_of(std::vector<CountedRow> rows) {
  std::ranges::sort(rows, {}, &CountedRow::name);
  size_t width = 0;
  for (const CountedRow& row : rows) {
    width = std::max(width, row.name.size());
  }
  const auto line = [width](const std::string& name, const std::string& bytes,
                            const std::string& read, const std::string& written,
                            const std::string& spread, const std::string& banks,
                            const std::string& reason) {
    const std::string text = fmt::format("{:<{}} {:>6} {:>6} {:>7} {:>6} {:>6}  {}", name, width,
                                         bytes, read, written, spread, banks, reason);
    return text.substr(0, text.find_last_not_of(' ') + 1) + '\n';
  };
  std::string text =
      kHeading + line("kernel", "bytes", "read", "written", "spread", "banks", "reason");
  for (const CountedRow& row : rows) {
    text += line(row.name, figure(row.bytes), figure(row.read), figure(row.written),
                 figure(row.spread), figure(row.banks), row.reason);
  }
  return text;
}

// Returns the figures of a table, by name.
std::map<std::string, std::vector<double>> figures_of(std::istream& table) {
  static const std::regex row(
      R"(^(.*?) +(\d+\.\d\d|-) +(\d+\.\d\d|-) +(\d+\.\d\d|-) +(\d+\.\d\d|-) +(\d+\.\d\d|-)(  .*)?$)");
  std::map<std::string, std::vector<double>> figures;
  std::smatch match;
  for (std::string line; std::getline(table, line);) {
    if (std::regex_match(line, match, row)) {
      for (size_t i = 2; i <= 6; ++i) {
        figures[match[1]].push_back(match[i] == "-" ? 0.0 : std::stod(match[i]));
      }
    }
  }
  return figures;
}

std::vector<double> figures_of(const CountedRow& row) {
  return {row.bytes, row.read, row.written, row.spread, row.banks};
}

std::vector<std::filesystem::path> kernel_files(const std::string& pattern) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(HIDUP_KERNELS)) {
    if (std::regex_match(entry.path().filename().string(), std::regex(pattern))) {
      files.push_back(entry.path());
    }
  }
  return files;
}

std::vector<std::string> names_in(const std::filesystem::path& file, const std::string& pattern) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const std::string source = text.str();
  const std::regex name(pattern);
  std::vector<std::string> names;
  for (std::sregex_iterator i(source.begin(), source.end(), name); i != std::sregex_iterator();
       ++i) {
    names.push_back((*i)[1]);
  }
  return names;
}

// Returns true for functions that launch no kernel of ours, or one in another function's row.
bool is_a_librarys(const std::string& function) {
  static const std::set<std::string> all = {"matmul", "matmul_bias", "matmul_gelu_backward",
                                            "matmul_sums", "fill_zero"};
  return all.contains(function);
}

void expect_all_are_counted(const CountedTable& table) {
  for (const auto& header : kernel_files("(?!cuda_|cpu_).*\\.h")) {
    for (const std::string& function : names_in(header, "\nvoid (\\w+)\\(Stream& stream")) {
      EXPECT_TRUE(table.functions().contains(function) || is_a_librarys(function))
          << function << " of " << header.filename() << " has no row";
    }
  }
  const std::vector<cuda_shim::CodePlace> places =
      cuda_shim::places_of({table.kernels().begin(), table.kernels().end()});
  for (const auto& source : kernel_files(".*(_cuda\\.cu|\\.h)")) {
    for (const std::string& kernel :
         names_in(source, "__global__ void (?:__launch_bounds__\\([^)]*\\)\\s+)?(\\w+)\\(")) {
      const auto is_it = [&](const cuda_shim::CodePlace& place) {
        const bool here = place.file.ends_with("/" + source.filename().string());
        return (here || source.extension() == ".h") &&  // a header's may begin with another's line
               std::regex_search(place.function, std::regex("\\b" + kernel + "\\b"));
      };
      EXPECT_TRUE(std::ranges::any_of(places, is_it))
          << kernel << " of " << source.filename() << " was not counted";
    }
  }
}

void expect_a_reason(const CountedRow& row) {
  EXPECT_TRUE(!row.reason.empty() || std::max({row.bytes, row.spread, row.banks}) <= kMost)
      << row.name << " needs a reason: bytes " << row.bytes << ", spread " << row.spread
      << ", banks " << row.banks;
}

TEST(Counted, KernelsAsTheTableHasThem) {
  CountedTable table;
  count_elements(table);
  count_rows(table);
  count_tokens(table);
  count_experts(table);
  count_attention(table);
  expect_all_are_counted(table);

  const std::string path = HIDUP_KERNELS "/counted.txt";
  if (std::getenv("HIDUP_WRITE_COUNTED") != nullptr) {
    std::ofstream(path) << text_of(table.rows());
  }
  std::ifstream file(path);
  auto expected = figures_of(file);
  for (const CountedRow& row : table.rows()) {
    expect_a_reason(row);
    const auto known = expected.extract(row.name);
    if (known.empty()) {
      ADD_FAILURE() << row.name << " is not in the table";
      continue;
    }
    const std::vector<double> found = figures_of(row);
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_LE(found[i], known.mapped()[i] + kWorse)
          << row.name << ": " << kFigures[i] << " is worse than in the table";
    }
  }
  for (const auto& [name, figures] : expected) {
    ADD_FAILURE() << name << " is in the table and was not counted";
  }
}

}  // namespace

void CountedTable::add(const CountedCase& of) {
  cuda_shim::take_counts();
  run(of.launch);
  const std::vector<cuda_shim::KernelCounts> all = cuda_shim::take_counts();
  EXPECT_FALSE(all.empty()) << of.function;
  int64_t read = 0;
  int64_t written = 0;
  int64_t least = 0;
  cuda_shim::SharedCounts shared;
  for (const cuda_shim::KernelCounts& counts : all) {
    kernels_.insert(counts.kernel);
    read += counts.read.sectors;
    written += counts.written.sectors;
    least += counts.read.least_sectors + counts.written.least_sectors;
    shared.wavefronts += counts.shared.wavefronts;
    shared.least_wavefronts += counts.shared.least_wavefronts;
  }
  functions_.insert(of.function);
  rows_.push_back({.name = of.function + " " + of.operands,
                   .bytes = ratio(32 * (read + written), of.read + of.written),
                   .read = ratio(32 * read, of.read),
                   .written = ratio(32 * written, of.written),
                   .spread = ratio(read + written, least),
                   .banks = ratio(shared.wavefronts, shared.least_wavefronts),
                   .reason = of.reason});
}

}  // namespace hidup::kernels::testing
