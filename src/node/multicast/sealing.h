// Whether the blocks of a session are sealed from their source to their destinations, and with what.
#pragma once

#include <cstdint>
#include <string>

#include "node/landing/landing.h"
#include "square/ids.h"
#include "trust/block_seal.h"

namespace square {

struct Sealing {
  trust::GroupKeyPtr key;  // null: blocks go as they are
  std::string group;       // its label
  std::string source;      // the node
};

inline trust::SealedCargo sealed_cargo(const Sealing& sealing, std::uint32_t incarnation, SessionId session,
                                       OperationId operation, const BlockShape& shape) {
  return {sealing.group,     sealing.source,       incarnation,       session.value(),
          operation.value(), shape.layout.value(), shape.total_bytes, shape.block_bytes};
}

}  // namespace square
