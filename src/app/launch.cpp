#include "app/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "comm/collective.h"
#include "core/check.h"
#include "core/text.h"
#include "core/version.h"

namespace hidup {
namespace {

// Returns the distinct texts in the order of their first ranks, each with its ranks.
std::vector<std::pair<std::string, std::vector<int>>> distinct(
    const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string, std::vector<int>>> all;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    auto found =
        std::ranges::find_if(all, [&](const auto& one) { return one.first == texts[rank]; });
    if (found == all.end()) {
      found = all.insert(all.end(), {texts[rank], {}});
    }
    found->second.push_back(static_cast<int>(rank));
  }
  return all;
}

// Quotes the argument at which a rank's list differs from another one.
std::string quoted(const std::vector<std::string_view>& arguments, size_t at) {
  return at < arguments.size() ? shown(arguments[at]) : "no argument";
}

// Describes where two lists of arguments, each ended by a zero byte, begin to differ.
std::string difference(const std::string& theirs, const std::string& first) {
  std::vector<std::string_view> a = split(theirs, '\0');
  std::vector<std::string_view> b = split(first, '\0');
  a.pop_back();
  b.pop_back();
  size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) {
    ++at;
  }
  return fmt::format("{}, where rank 0 has {}", quoted(a, at), quoted(b, at));
}

}  // namespace

std::vector<int> ranks_where(Communicator& world, bool mine) {
  const std::vector<char> all = all_gather_value(world, static_cast<char>(mine));
  std::vector<int> ranks;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != 0) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return ranks;
}

std::string text_of_ranks(Communicator& world, const std::string& mine) {
  return text_of_ranks(gather_texts(world, mine));
}

std::string text_of_ranks(const std::vector<std::string>& texts) {
  const auto all = distinct(texts);
  if (all.size() == 1) {
    return all[0].first;
  }
  std::string text;
  for (const auto& [one, ranks] : all) {
    if (!one.empty()) {
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", one, format_ranks(ranks));
    }
  }
  return text;
}

std::vector<std::string> lines_of_ranks(Communicator& world, const std::vector<std::string>& mine) {
  std::vector<std::string> all;
  for (const std::string& text : gather_texts(world, fmt::format("{}", fmt::join(mine, "\n")))) {
    for (const std::string_view line : split(text, '\n')) {
      if (!line.empty() && std::ranges::find(all, line) == all.end()) {
        all.emplace_back(line);
      }
    }
  }
  return all;
}

std::string build_name(const std::string& version, const std::string& commit, bool dirty) {
  return fmt::format("{} {}{}", version, commit, dirty ? " with changes" : "");
}

std::string version_text() {
  return build_name(program_version(), git_commit(), git_dirty());
}

void check_same_arguments(Communicator& world, std::span<char* const> arguments) {
  std::string mine;
  for (const char* argument : arguments) {
    (mine += argument) += '\0';
  }
  const auto all = distinct(gather_texts(world, mine));
  collectively(world, [&] {
    if (all.size() > 1) {  // on rank 0
      fail(ExitCode::usage, "all ranks take the same arguments, but {} started with {}",
           format_ranks(all[1].second), difference(all[1].first, all[0].first));
    }
  });
}

void check_same_version(Communicator& world, const std::string& version) {
  const auto all = distinct(gather_texts(world, version));
  collectively(world, [&] {
    if (all.size() > 1) {  // on rank 0
      fail(ExitCode::usage,
           "hidup {} starts on {}, but hidup {} on rank 0: all builds of a job must be of the same "
           "sources",
           all[1].first, format_ranks(all[1].second), all[0].first);
    }
  });
}

}  // namespace hidup
