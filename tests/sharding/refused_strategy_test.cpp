// Errors in a strategy's text, one change at a time.
#include <gtest/gtest.h>

#include "core/check.h"
#include "small_strategy.h"

namespace hidup {
namespace {

struct Edit {
  const char* from;
  const char* to;
  const char* message;  // of one problem, from its place on
};

class IllegalEdit : public testing::TestWithParam<Edit> {};

TEST_P(IllegalEdit, IsRefusedWithItsPlaceAndTheReason) {
  try {
    parse_strategy(small_graph(), kMesh, edited(GetParam().from, GetParam().to), "s.yaml");
    FAIL() << "accepted: " << GetParam().to;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    const std::string message = "\n" + std::string(error.what());
    EXPECT_NE(message.find("\ns.yaml:" + std::string(GetParam().message)), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Head, IllegalEdit,
    testing::Values(
        Edit{"format_version: 1", "format_version: 3",
             "1:17: format_version: expected 1 or 2, found 3"},
        Edit{"graph_hash: ", "graph_hash: 0", "2:13: graph_hash: expected "},
        Edit{"size: 2", "size: 4",
             "4:3: mesh: expected ranks=2 of the cluster and its ranks, found ranks=4"},
        Edit{"name: ranks", "name: nodes",
             "4:3: mesh: expected ranks=2 of the cluster and its ranks, found nodes=2"},
        Edit{"  - {name: ranks, size: 2}\n",
             "  - {name: ranks, size: 2}\n  - {name: cores, size: 2}\n",
             "4:3: mesh: expected ranks=2 of the cluster and its ranks, found ranks=2 cores=2"},
        Edit{"size: 2", "sise: 2", "4:19: unknown key sise: did you mean size?"},
        Edit{"name: dp", "name: [dp]", "5:7: name: expected a word"},
        Edit{"name: dp", "name: \"d\\e[31mp\"",
             "5:7: name: expected a word of at most 200 characters, found d\\x1b[31mp"},
        Edit{"microbatches: 1", "microbatches: 0", "6:15: microbatches: expected "},
        Edit{"microbatches: 1", "microbatches: 1.5", "6:15: microbatches: expected "},
        Edit{"microbatches: 1", "microbatches: [1]", "6:15: microbatches: expected "},
        Edit{"microbatches: 1", "microbatches: 5",
             "6:15: microbatches: expected at most 4, the sequences of a step, found 5"},
        Edit{"microbatches: 1", "microbatches: 2000000000",
             "6:15: microbatches: expected a whole number from 1 to 256, found 2000000000"},
        Edit{"overlapped", "overlaped", "7:12: gradients: expected overlapped or deferred"},
        Edit{"microbatches: 1\n", "", "1:1: microbatches is missing"},
        Edit{"microbatches", "microbatch",
             "6:1: unknown key microbatch: did you mean microbatches?"},
        Edit{"name: dp\n", "name: dp\nauthor: me\n", "6:1: unknown key author; known: "}));

INSTANTIATE_TEST_SUITE_P(
    Rules, IllegalEdit,
    testing::Values(
        Edit{"{op: y, rule: [batch]", "{op: y, rule: [\"\\e[2J\"]",
             "10:20: y cannot be sharded by \\x1b[2J; legal rules: "},
        Edit{"{op: y, rule: [batch]", "{op: y, rule: [colum]",
             "10:20: y cannot be sharded by colum: did you mean column?; legal rules: replicate, "
             "batch, sequence, row, column, partial, factors"},
        // The rule belongs to other operations.
        Edit{"{op: y, rule: [batch]", "{op: y, rule: [vocabulary]",
             "10:20: y cannot be sharded by vocabulary; legal rules: replicate, batch, sequence, "
             "row, column, partial"},
        Edit{"{op: x, rule: [batch]", "{op: x, rule: [row]",
             "9:20: x cannot be sharded by row; legal rules: replicate, batch, sequence, column, "
             "vocabulary"},
        Edit{"{op: loss, rule: [batch]", "{op: loss, rule: [head]",
             "11:23: loss cannot be sharded by head; legal rules: replicate, batch, sequence, "
             "vocabulary"},
        Edit{"{op: y, rule: [batch]", "{op: y, rule: ['']",
             "10:20: y cannot be sharded by nothing"},
        Edit{"{op: y, rule: [batch]", "{op: y, rule: batch",
             "10:19: y: rule: expected a list of 1 rule(s), one per axis"},
        Edit{"{op: y, rule: [batch]", "{op: y, rule: [batch, row]",
             "10:19: y: rule: expected a list of 1 rule(s), one per axis"},
        Edit{"{op: y, rule: [batch], ", "{op: y, ", "10:5: rule is missing"},
        Edit{"{op: y, rule: [batch]", "{op: y, rules: [batch]",
             "10:13: unknown key rules: did you mean rule?"},
        Edit{"{op: y, ", "{op: y, weight: 1, ", "10:13: unknown key weight"}));

INSTANTIATE_TEST_SUITE_P(
    Operations, IllegalEdit,
    testing::Values(
        Edit{"  - {op: y, rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}\n", "",
             "9:3: operations: expected a list of the graph's 3 operations, found 2"},
        Edit{"op: x", "op: y", "9:5: op: expected x, the next operation of the graph, found y"},
        Edit{"{op: y, ", "{", "10:5: op: expected y, the next operation of the graph, found "},
        Edit{"  - {op: y, rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}\n", "  - y\n",
             "10:5: op is missing"},
        // y precedes x.
        Edit{"  - {op: x, rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}\n"
             "  - {op: y, rule: [batch], inputs: [[S(0)], [R]], outputs: [[S(0)]]}\n",
             "  - {op: y, rule: [batch]}\n  - {op: x, rule: [batch]}\n",
             "10:5: op: expected y, the next operation of the graph, found x"}));

INSTANTIATE_TEST_SUITE_P(
    Placements, IllegalEdit,
    testing::Values(
        Edit{"{op: y, rule: [batch], inputs: [[S(0)], [R]]",
             "{op: y, rule: [batch], inputs: [[S(1)], [R]]",
             "10:36: y: the rule batch has the inputs [[S(0)], [R]]; change the rule, and leave "
             "inputs and outputs out or make them the rule's"},
        Edit{"outputs: [[P]]", "outputs: [[R]]",
             "11:66: loss: the rule batch has the outputs [[P]]"},
        Edit{"outputs: [[P]]", "outputs: [[P], [P]]",
             "11:66: loss: the rule batch has the outputs [[P]]"},
        Edit{"outputs: [[P]]", "outputs: [[S]]",
             "11:68: loss: outputs: expected R, S(dimension) or P, found S"},
        Edit{"outputs: [[P]]", "outputs: [[[P]]]",
             "11:68: loss: outputs: expected R, S(dimension) or P, found nothing"},
        Edit{"outputs: [[P]]", "outputs: [[P, P]]",
             "11:67: loss: outputs: expected a list of 1 placement(s), one per axis"},
        Edit{"outputs: [[P]]", "outputs: P", "11:66: loss: the rule batch has the outputs [[P]]"}));

INSTANTIATE_TEST_SUITE_P(
    Storage, IllegalEdit,
    testing::Values(
        Edit{"{name: w, storage: [R]", "{name: w, storage: [P]",
             "14:24: w: storage cannot be P: a parameter of 2 dimension(s) is stored R or S(0) to "
             "S(1)"},
        Edit{"{name: w, storage: [R]", "{name: w, storage: [S(2)]",
             "14:24: w: storage cannot be S(2): a parameter of 2 dimension(s)"},
        Edit{"{name: w, storage: [R]", "{name: w, storage: [S(2)@0]",
             "14:24: w: storage cannot be S(2)@0"},
        Edit{"{name: w, storage: [R]", "{name: w, storage: [column]",
             "14:25: w: storage: expected R, S(dimension) or P, found column"},
        Edit{"{name: w, storage: [R]", "{name: w, storage: R",
             "14:24: w: storage: expected a list of 1 placement(s), one per axis"},
        Edit{"{name: w, storage: [R], optimizer_state: [R]}",
             "{name: w, storage: [R], optimizer_state: [P]}",
             "14:46: w: optimizer_state cannot be P"},
        Edit{"{name: w, storage: [R], optimizer_state: [R]}", "{name: w, storage: [R]}",
             "14:5: optimizer_state is missing"},
        Edit{"name: w", "name: v",
             "14:5: name: expected w, the next parameter of the graph, found v"},
        Edit{"  - {name: w, storage: [R], optimizer_state: [R]}\n", "",
             "13:3: parameters: expected a list of the graph's 2 parameters, found 1"}));

// These keys are another problem where the file begins with format_version: 1.
INSTANTIATE_TEST_SUITE_P(
    ComingAndGoing, IllegalEdit,
    testing::Values(
        Edit{"gradients: overlapped", "accumulate: 2\ngradients: overlapped",
             "7:13: accumulate: files of format_version 1 have none; expected format_version: 2"},
        Edit{"gradients: overlapped", "accumulate: none\ngradients: overlapped",
             "7:13: accumulate: expected a whole number from 1 to 256, found none"},
        Edit{"gradients: overlapped", "accumulate: 5\ngradients: overlapped",
             "7:13: accumulate: expected at most 4 microbatches in all, the sequences of a step, "
             "found 5 groups of 1"},
        Edit{"gradients: overlapped", "acumulate: 2\ngradients: overlapped",
             "7:1: unknown key acumulate: did you mean accumulate?"},
        Edit{"op: y, rule: [batch]", "op: y, recompute: true, rule: [batch]",
             "10:24: recompute: files of format_version 1 have none"},
        Edit{"op: y, rule: [batch]", "op: y, recompute: tru, rule: [batch]",
             "10:24: y: recompute: expected false or true, found tru: did you mean true?"},
        Edit{"op: y, rule: [batch]", "op: y, recomputed: true, rule: [batch]",
             "10:13: unknown key recomputed: did you mean recompute?"},
        Edit{"op: loss, rule: [batch]", "op: loss, recompute: true, rule: [batch]",
             "11:27: loss: recompute: the loss is computed once"},
        Edit{"{name: w, ", "{name: w, reshard_after_forward: true, ",
             "14:38: reshard_after_forward: files of format_version 1 have none; expected "
             "format_version: 2"},
        Edit{"{name: w, ", "{name: w, kept: pas, ",
             "14:21: w: kept: expected step or pass, found pas: did you mean pass?"},
        Edit{"{name: w, ", "{name: w, reshard_after_forwar: true, ",
             "14:15: unknown key reshard_after_forwar: did you mean reshard_after_forward?"}));

INSTANTIATE_TEST_SUITE_P(
    Notes, IllegalEdit,
    testing::Values(
        Edit{"name: dp\n", "name: dp\nstages: [x, z]\n",
             "6:13: stages: the graph has no operation z"},
        // A parameter is no operation.
        Edit{"name: dp\n", "name: dp\nstages: [table]\n",
             "6:10: stages: the graph has no operation table"},
        Edit{"name: dp\n", "name: dp\nstages: x\n", "6:9: stages: expected a list of operations"},
        Edit{"name: dp\n", "name: dp\npredicted: {iteration_s: 1}\n", "6:12: compute_s is missing"},
        Edit{"name: dp\n",
             "name: dp\npredicted: {iteration_s: soon, compute_s: 1, comm_s: 1, exposed_comm_s: 1, "
             "peak_bytes: 1}\n",
             "6:26: iteration_s: expected "},
        Edit{"name: dp\n",
             "name: dp\npredicted: {iteration_s: 1, compute_s: 1, comm_s: 1, exposed_comm_s: 1, "
             "peak_bytes: 1.5}\n",
             "6:85: peak_bytes: expected a whole number"}));

INSTANTIATE_TEST_SUITE_P(
    Malformed, IllegalEdit,
    testing::Values(Edit{"name: dp", "name: [dp", "6:"}, Edit{"name: dp", "name: *dp", "5:7: "},
                    Edit{"name: dp", "name: dp\nname: dp", "6:1: name is given twice"},
                    Edit{"op: y, rule: [batch]", "op: y, rule: [batch], rule: [row]",
                         "10:28: rule is given twice"},
                    Edit{"name: dp", "\tname: dp", "5:"}));

}  // namespace
}  // namespace hidup
