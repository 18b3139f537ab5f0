// What all parts of a master share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "ps/protocol.h"
#include "square/training_options.h"

namespace square::ps {

// The newest version that is committed.
struct Committed {
  v1::PsRecord record;  // version 0: none yet
  v1::PsModel model;

  [[nodiscard]] std::uint64_t version() const { return record.version(); }
};

struct Desk {
  TrainingOptions settings;
  std::uint64_t maker = 0;
  std::function<void(PeerId, v1::PsOrder)> send;
  // Ends a line: who is on it, if anybody still is, comes back on another one.
  std::function<void(PeerId)> close;
  TimePoint now{};
  Committed committed;

  // To one whose line is lost: to nobody.
  void tell(PeerId peer, v1::PsOrder order) const {
    if (peer != 0) send(peer, std::move(order));
  }
};

}  // namespace square::ps
