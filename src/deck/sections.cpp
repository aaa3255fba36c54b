#include "deck/cluster_deck.h"
#include "deck/data_deck.h"
#include "deck/indirect.h"
#include "deck/model_deck.h"
#include "deck/search_deck.h"
#include "deck/train_deck.h"

namespace hidup {

template <typename Value>
Indirect<Value>::Indirect() : value_(std::make_unique<Value>()) {}
template <typename Value>
Indirect<Value>::Indirect(const Indirect& other) : value_(std::make_unique<Value>(*other)) {}
template <typename Value>
Indirect<Value>::Indirect(Indirect&& other) noexcept = default;
template <typename Value>
Indirect<Value>& Indirect<Value>::operator=(const Indirect& other) {
  return *this = *other;
}
template <typename Value>
Indirect<Value>& Indirect<Value>::operator=(Indirect&& other) noexcept = default;
template <typename Value>
Indirect<Value>& Indirect<Value>::operator=(const Value& value) {
  value_ = std::make_unique<Value>(value);
  return *this;
}
template <typename Value>
Indirect<Value>::~Indirect() = default;

template class Indirect<ModelDeck>;
template class Indirect<DataDeck>;
template class Indirect<TrainDeck>;
template class Indirect<SearchDeck>;
template class Indirect<ClusterDeck>;

}  // namespace hidup
