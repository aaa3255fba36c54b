#include "app/validation.h"

#include "comm/collective.h"
#include "program/verify.h"

namespace hidup {

Validation::Validation(const Graph& graph, const Strategy& strategy, const Deck& deck,
                       const PlannedProgram& training, Communicator& world)
    : deck_(deck),
      rank_(world.rank()),
      program_(make_forward_program(graph, strategy, deck, world)) {
  collectively(world, [&] {
    plan_ = plan_memory(program_, rank_, stored_values(training.program, training.plan));
    verify(program_, plan_);
  });
}

void Validation::prepare(Store& store, const Dataset& data) {
  executor_.emplace(program_, plan_, store, rank_, deck_.train.seed);
  evaluator_.emplace(deck_, *data.validation, data.validation_sequences, *executor_, rank_);
}

}  // namespace hidup
