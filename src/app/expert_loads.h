// Loads of experts that a plan expects (model.moe.load) or that tokens are given (data.trace).
#pragma once

#include <string>

#include "deck/deck.h"
#include "train/expert_report.h"

namespace hidup {

// Returns the text of the file model.moe.load; empty for even loads. Throws Error(file).
std::string expert_loads_text(const Deck& deck);

// Returns the deck with the loads of that text. Throws Error(file) with the line for a line without
// a number >= 0 for each expert, or with zeros alone, and for a text without lines.
Deck with_expert_loads(Deck deck, const std::string& text);

// Returns the text of the file data.trace; empty without one. Throws Error(file).
std::string trace_text(const Deck& deck);

// Returns the deck with the recorded loads of that text. Throws Error(file) as above, and for a
// sample that has not one line per layer with experts.
Deck with_trace(Deck deck, const std::string& text);

// Returns what the run's report compares the loads with: what the prediction took, even loads where
// none are given. With a capacity they decide nothing.
ExpertExpectation expected_of_experts(const Deck& deck);

}  // namespace hidup
