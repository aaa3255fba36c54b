// The ranks of cluster.devices, however the deck names them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deck/cluster_deck.h"
#include "deck/deck.h"

namespace hidup {

// Returns the rising ranks of a text such as "0-7, 12"; none where it is not of this form, or names
// a rank twice.
std::optional<std::vector<int64_t>> parse_ranks(const std::string& text);

// Returns the text of parse_ranks(). `ranks`: rising.
std::string print_ranks(const std::vector<int64_t>& ranks);

// The key of a problem in a deck, and its message.
struct Misfit {
  std::string key;
  std::string message;
};

// The item of cluster.devices of every rank; none where the items do not fit so many ranks.
struct DividedRanks {
  std::vector<size_t> items;
  std::optional<Misfit> misfit;
};
// Gives ranks to the items that name theirs, then to the others in turn.
DividedRanks divide_ranks(const ClusterDeck& cluster, int64_t ranks);

// Returns the items of cluster.devices with the values of cluster.device where they have none;
// without items, cluster.device as the only one.
std::vector<DeviceClass> device_classes(const ClusterDeck& cluster);

// Returns the item of device_classes() of every rank. The items have to fit so many ranks
// (check_ranks()).
std::vector<size_t> classes_of_ranks(const ClusterDeck& cluster, int64_t ranks);

// Returns a number of every rank; ranks whose devices compute alike have the same one. All ranks do
// where the items do not fit so many ranks.
std::vector<int64_t> alike_devices(const ClusterDeck& cluster, int64_t ranks);

// Returns the item of the rank; cluster.device where the items do not fit so many ranks.
DeviceClass device_of_rank(const ClusterDeck& cluster, int64_t rank, int64_t ranks);

// Returns the deck with the ranks of items that name a host. `hosts`: the host of every rank.
// Throws Error(usage) with the place where an item's host has no rank, or not `count` of them.
Deck with_hosts(Deck deck, const std::vector<std::string>& hosts);

// Returns true if an item of cluster.devices says by a number, not by a host, which ranks it means.
bool counts_ranks(const ClusterDeck& cluster);

// Returns the deck with the items' ranks numbered anew: order[n] becomes n. All items name ranks.
Deck with_order(Deck deck, const std::vector<int>& order);

}  // namespace hidup
