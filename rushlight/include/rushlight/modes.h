// Modes of a thread that guards change.
#pragma once

namespace rushlight {
enum class Mode : int { kGrad, kInference, kBelowAutograd };
}
