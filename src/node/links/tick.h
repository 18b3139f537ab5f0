// When a node's links do what is due.
#pragma once

#include "square/clock.h"

namespace square {

// A wake-up costs more than a block. So pacers let blocks through at points in time that all links of a
// node share, and answers that can wait do so for points of their own: what is due by then goes out
// together. Nothing is due, no tick. A late block is made up for, so rates do not change; a hop takes
// half a tick longer.
inline constexpr Duration kPaceTick = std::chrono::milliseconds(4);
inline constexpr Duration kAnswerTick = std::chrono::milliseconds(20);

}  // namespace square
