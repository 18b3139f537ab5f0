// What a member's program called, to tell members that they do not call the same.
#pragma once

#include <cstdint>
#include <string>

namespace square {

// The values are the wire's and never change.
enum class CallKind : std::uint8_t {
  kNone = 0,  // messages: members need not call them alike
  kBroadcast = 1,
  kReduce = 2,
  kAllReduce = 3,
  kAllGather = 4,
  kReduceScatter = 5,
  kAllToAll = 6,
  kGather = 7,
  kScatter = 8,
  kBarrier = 9,
  kRingAllReduce = 10,
  kCompressedAllReduce = 11,
};

// The number counts the group's calls of any kind, modulo kGroupCallNumbers.
inline constexpr std::uint32_t kGroupCallNumbers = 1U << 12U;
struct GroupCall {
  CallKind kind = CallKind::kNone;
  std::uint16_t number = 0;
  friend bool operator==(const GroupCall&, const GroupCall&) = default;
};

constexpr std::uint16_t to_bits(GroupCall call) {
  return static_cast<std::uint16_t>(static_cast<unsigned>(call.kind) << 12U |
                                    call.number % kGroupCallNumbers);
}
constexpr GroupCall group_call_from_bits(std::uint16_t bits) {
  return {static_cast<CallKind>(bits >> 12U), static_cast<std::uint16_t>(bits % kGroupCallNumbers)};
}
// "all_gather (call 7 of the group)", counted from 1; "something unknown" for a kind that there is not.
std::string to_string(GroupCall call);

}  // namespace square
