// The learning rate of every step.
#pragma once

#include <cstdint>

#include "deck/deck.h"

namespace hidup {

// Rises linearly to train.lr over the warm-up steps, then follows train.schedule down
// to lr x min_lr_ratio at the last step: constant, linear or cosine (Loshchilov and
// Hutter, "SGDR", 2017, without restarts). Steps count from 1.
double learning_rate(const TrainDeck& train, int64_t step);

}  // namespace hidup
