// Whether a node answers at an address, asked without opening a link.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "square/units.h"
#include "transport/grpc/handshake.h"

namespace square::rpc {

// Asked at the same time.
inline constexpr std::size_t kMaxAsksAtOnce = 16;
// A connection, and then an answer on it, are waited for so long.
inline constexpr std::chrono::milliseconds kAskDeadline{2500};

enum class Reach : std::uint8_t {
  kReached,       // a link would be accepted
  kUnresolved,    // nobody knows the host's name
  kRefused,       // the host answers that nobody listens
  kUnreachable,   // the network says that there is no way
  kTimedOut,      // nothing answers at all
  kSilent,        // something takes the connection, and says nothing
  kNotSquare,     // something else listens
  kOtherNode,     // another node listens
  kOtherVersion,  // a node of another protocol version
  kStranger,      // one of the two does not believe the other's certificate, or speaks no TLS
  kOther,         // refused for another reason, which the words say
  kUnfinished,    // the time was over first
};
std::string_view to_string(Reach reach);

struct AskedNode {
  std::string name;
  std::string address;  // host:port
};

struct Asked {
  AskedNode to;
  Reach reach = Reach::kUnfinished;
  std::string words;  // what was said or seen
  std::string node;   // who listens there, where it is a node
  std::string at;     // the address that the host's name stands for, with the port
  // Of the connection, as TCP measured it.
  std::optional<Duration> round_trip;
  std::string congestion;  // TCP's congestion control on it
};

// Asks them as `self` would when it opens a link. Blocks until all have answered, for kAskDeadline twice for
// every kMaxAsksAtOnce of them at most, and no longer than `timeout`: who has not answered by then is
// kUnfinished. Ends soon once `is_cancelled`. In the order of `nodes`. Thread-safe.
std::vector<Asked> ask_all(const Self& self, const std::vector<AskedNode>& nodes, Duration timeout,
                           const std::atomic<bool>& is_cancelled);

}  // namespace square::rpc
