#include "app/validation.h"

#include "comm/collective.h"
#include "deck/train_deck.h"
#include "program/verify.h"

namespace hidup {

Validation::Validation(const Graph& graph, const Strategy& strategy, const Deck& deck,
                       const PlannedProgram& training, Communicator& world)
    : deck_(deck), world_(world), program_(make_forward_program(graph, strategy, deck, world)) {
  collectively(world, [&] {
    plan_ = plan_memory(program_, world_.rank(), stored_values(training.program, training.plan));
    verify(program_, plan_);
  });
}

void Validation::prepare(Store& store, const Dataset& data) {
  executor_.emplace(program_, plan_, store, world_.rank(), deck_.train->seed);
  evaluator_.emplace(deck_, *data.validation, data.validation_sequences, *executor_, world_);
}

}  // namespace hidup
