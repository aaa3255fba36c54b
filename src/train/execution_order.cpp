#include "train/execution_order.h"

#include "deck/cluster_deck.h"
#include "deck/train_deck.h"

namespace hidup {

Executor::Order execution_order(const Deck& deck, bool timed) {
  if (deck.train->overlap == "off") {
    return Executor::Order::in_turn;
  }
  if (deck.cluster->device_graph == "off") {
    return Executor::Order::overlapped;
  }
  return timed ? Executor::Order::recorded : Executor::Order::recorded_untimed;
}

}  // namespace hidup
