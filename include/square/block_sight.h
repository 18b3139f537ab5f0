// What a node saw of a block that is audited: after one did not open, all who pass on or get the blocks that
// follow tell what came to them, and two neighbours that differ are found.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "square/ids.h"

namespace square {

struct BlockSight {
  // A block on its way along a stream, whoever sees it.
  struct Name {
    Epoch epoch;
    OriginTag origin;
    SessionId session;
    StreamIndex stream;
    OperationId operation;
    std::uint64_t sequence = 0;
    friend auto operator<=>(const Name&, const Name&) = default;
  };
  // SHA-256 of its payload, and of what its header says and no hop changes.
  using Digest = std::array<std::byte, 32>;

  Name name;
  std::string from;  // the neighbour that it came from; empty: the stream begins here
  Digest digest{};
};

}  // namespace square
