// The learning rate of every step.
#pragma once

#include <cstdint>
#include <string>

namespace hidup {

struct TrainDeck;

// Returns the learning rate of a step, from 1. It rises linearly to train.lr over the warm-up
// steps, then follows train.schedule down to lr x min_lr_ratio at the last step: constant, linear
// or cosine (Loshchilov and Hutter, "SGDR", 2017, without restarts).
double learning_rate(const TrainDeck& train, int64_t step);

// Returns a text for people if the next step after `done` has a larger learning rate with `now`
// than with `before`, whose last step counts if there is no such step. Returns "" otherwise.
std::string describe_raise(const TrainDeck& before, const TrainDeck& now, int64_t done);

}  // namespace hidup
