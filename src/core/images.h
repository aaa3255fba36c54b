// Sizes of the images that models of the family vit read, which are those of CIFAR-10 (Krizhevsky,
// "Learning multiple layers of features from tiny images", 2009), and of their patches.
#pragma once

#include <cstdint>

namespace hidup {

inline constexpr int64_t kImageChannels = 3;
inline constexpr int64_t kImageSide = 32;  // pixels
inline constexpr int64_t kImageClasses = 10;
inline constexpr int64_t kPatchSide = 4;  // pixels

inline constexpr int64_t kImagePatches = (kImageSide / kPatchSide) * (kImageSide / kPatchSide);
inline constexpr int64_t kPatchValues = kImageChannels * kPatchSide * kPatchSide;
inline constexpr int64_t kImageValues = kImagePatches * kPatchValues;
// The class token and the patches.
inline constexpr int64_t kImagePositions = kImagePatches + 1;

}  // namespace hidup
