// The learning rate of every step.
#pragma once

#include <cstdint>
#include <string>

namespace hidup {

struct TrainDeck;

// Rises linearly to train.lr over the warm-up steps, then follows train.schedule down
// to lr x min_lr_ratio at the last step: constant, linear or cosine (Loshchilov and
// Hutter, "SGDR", 2017, without restarts). Steps count from 1.
double learning_rate(const TrainDeck& train, int64_t step);

// For people, of a run that goes on behind step `done` with `now` in place of `before`: that the
// next step has a larger learning rate than before, or than the last step had if there was no next
// one. Empty where it has not.
std::string describe_raise(const TrainDeck& before, const TrainDeck& now, int64_t done);

}  // namespace hidup
