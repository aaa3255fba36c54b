// cuBLASLt's fast kernels for 16 bits need rows that begin at multiples of 16 bytes. Every product
// of the shipped decks has them, or an entry below gives the reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "core/images.h"
#include "deck/data_deck.h"
#include "deck/model_deck.h"
#include "graph/flops.h"
#include "graph/text.h"
#include "models/transformer.h"
#include "program/lower.h"
#include "program/padded_rows.h"
#include "search/named/named_strategies.h"

namespace hidup {
namespace {

constexpr int64_t kAligned = 16;  // bytes
constexpr int64_t kRanks = 8;
constexpr int64_t kBytes = 256;  // the vocabulary of decks with byte tokens

std::vector<std::filesystem::path> shipped_decks() {
  std::vector<std::filesystem::path> decks;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(HIDUP_INPUTS "/models")) {
    if (entry.path().extension() == ".yaml") {
      decks.push_back(entry.path());
    }
  }
  return decks;
}

Graph graph_of(const std::filesystem::path& file) {
  const DeckSource source = read_deck_file(file.string());
  const Deck deck = parse_decks(&source, nullptr, {}, kRanks);
  if (!deck.model->graph.empty()) {
    std::stringstream text;
    text << std::ifstream(deck.model->graph).rdbuf();
    return with_precision(parse_graph(text.str(), deck.model->graph), DType::bf16);
  }
  const int64_t classes = deck.data->kind == "images" ? kImageClasses : kBytes;
  return with_precision(build_model(deck, deck.model->vocab.value_or(classes)), DType::bf16);
}

// An operand of a product on a rank.
struct Matrix {
  std::string name;
  int64_t row = 0;    // elements
  int64_t bytes = 0;  // from one row to the next
};

// Returns the row of x [.., summed], the weight, y [.., columns], or a gradient, without experts.
int64_t row_of(const Program& program, const Instruction& product, std::string_view operand,
               ValueId weight, int64_t rank) {
  const auto& attributes = product.as<MatmulAttributes>();
  const WeightShape shape = weight_shape(program.local_shape(weight, rank), attributes);
  const bool is_weight = operand.ends_with("weight");
  const bool has_summed = is_weight ? attributes.transposed : operand.ends_with("x");
  return elements(has_summed ? shape.summed : shape.columns);
}

std::vector<Matrix> matrices_of(const Program& program, const Instruction& product, int64_t rank) {
  const Signature& signature = spec_of(product.opcode).signature;
  std::vector<std::pair<std::string_view, ValueId>> operands;
  for (size_t i = 0; i < product.inputs.size(); ++i) {
    operands.emplace_back(signature.inputs.list()[i].name, product.inputs[i]);
  }
  for (size_t i = 0; i < product.outputs.size(); ++i) {
    operands.emplace_back(signature.outputs.list()[i].name, product.outputs[i]);
  }
  const ValueId weight = std::ranges::find_if(operands, [](const auto& operand) {
                           return operand.first.ends_with("weight");
                         })->second;
  const bool of_experts = !std::holds_alternative<MatmulAttributes>(product.attributes);
  std::vector<Matrix> matrices;
  for (const auto& [operand, id] : operands) {
    const Value& value = program.value(id);
    if (operand.ends_with("bias") || operand == "counts") {
      continue;
    }
    const int64_t row = of_experts ? program.local_shape(id, rank).back()
                                   : row_of(program, product, operand, weight, rank);
    const int64_t stride = value.padded_rows ? program.row_stride(id, rank) : row;
    matrices.push_back({value.name, row, stride * size_of(value.dtype)});
  }
  return matrices;
}

// Returns the reason why a matrix's rows may be unaligned; empty where they may not.
constexpr std::string_view kShort = "short rows stay dense";
constexpr std::string_view kHead = "parameters are dense: a head that is no embedding has odd rows";
std::string_view reason_for(const Matrix& matrix) {
  return matrix.row <= kLongestDenseRow           ? kShort
         : matrix.name.starts_with("head.weight") ? kHead
                                                  : "";
}

TEST(LeadingDimensions, AreAlignedInSixteenBits) {
  std::map<std::string_view, std::set<std::string>> excused;
  for (const std::filesystem::path& deck : shipped_decks()) {
    const Graph graph = graph_of(deck);
    for (const auto& [strategy, ranks] :
         {std::pair("dp", int64_t{1}), std::pair("megatron", kRanks)}) {
      SCOPED_TRACE(deck.filename().string() + " " + strategy);
      const Program program = lower(graph, named_strategy(strategy, graph, {{"ranks", ranks}}), {});
      for (const Instruction& instruction : program.instructions) {
        if (!is_product(instruction.opcode) ||
            name_of(instruction.opcode).find("matmul") == std::string_view::npos) {
          continue;
        }
        for (const int64_t rank : std::set<int64_t>{0, ranks - 1}) {
          for (const Matrix& matrix : matrices_of(program, instruction, rank)) {
            if (matrix.bytes % kAligned == 0) {
              continue;
            }
            const std::string_view reason = reason_for(matrix);
            EXPECT_NE(reason, "") << instruction.name << ": rows of " << matrix.name << " are "
                                  << matrix.bytes << " bytes apart on rank " << rank;
            excused[reason].insert(deck.stem().string());
          }
        }
      }
    }
  }
  EXPECT_EQ(excused[kHead], (std::set<std::string>{"bert", "bert-sgmoe", "bert-switch"}));
  // Ten classes, few experts, and eighths of small models have short rows.
  EXPECT_EQ(excused[kShort],
            (std::set<std::string>{"deepseek-tiny", "llama-tiny", "mixtral-tiny", "own-graph",
                                   "tiny", "vit", "vit-sgmoe", "vit-switch"}));
}

}  // namespace
}  // namespace hidup
