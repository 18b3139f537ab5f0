// What a member called, as one value: how it is sent, compared and told.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "square/compression.h"
#include "square/group_call.h"
#include "square/reduction.h"
#include "square/status.h"

namespace square {

// All that members must call alike; what an operation does not have, or nobody said, stays as it is here.
struct CallDescription {
  GroupCall call{};
  Reduction reduction = kNoReduction;
  std::uint64_t size_bytes = 0;  // of each member's elements, where there is a reduction
  std::uint32_t group_size = 0;
  // Whether what is not sent is kept is each member's own business.
  Compression compression{};
};

// "ring all_reduce (call 7 of the group) of 400 bytes of float32 (sum)".
std::string to_string(const CallDescription& description);

// On the wire: docs/wire.md draws it. decode() takes any bytes, of which to_string() makes something.
inline constexpr std::size_t kCallDescriptionBytes = 32;
using CallDescriptionBytes = std::array<std::byte, kCallDescriptionBytes>;
CallDescriptionBytes encode(const CallDescription& description);
CallDescription decode_call_description(std::span<const std::byte, kCallDescriptionBytes> bytes);

struct Caller {
  std::string who;  // "rank 2", "rank 0 on node "fra""
  CallDescription called;
};
// INVALID_ARGUMENT that names both.
Status different_calls(const Caller& one, const Caller& other);
// OK if both have called the same, which is if it is encoded the same; else different_calls().
Status compare_calls(const Caller& one, const Caller& other);

}  // namespace square
