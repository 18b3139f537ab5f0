// A shard over a line, part by part: kPartsUnderWay of them at once, so that the line, the disk and the
// arithmetic work beside one another.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "ps/outer/kernels.h"
#include "ps/shard/window.h"

namespace square::ps {

// Copies the part with that index; `out` has its size. May block.
using PartReader = std::function<Status(std::size_t index, std::span<float> out)>;

// Receives a push to `values`, whose size is the shard's, and measures it. With a `current` the push has
// parameters in float32, and the values become current - push. Errors: those of the line and of check_part().
Result<NormOf> receive_push(DataLine& line, Staging& staging, const v1::PsTransfer& transfer,
                            ElementType type, const PartReader& current, std::span<float> values);
// Sends the parts of the transfer's shard. Returns when the other end has them all. Errors: those of the line
// and of `read`.
Status send_parameters(DataLine& line, Staging& staging, const v1::PsTransfer& transfer,
                       const PartReader& read);

}  // namespace square::ps
