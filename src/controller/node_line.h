// The controller's end of a node's line, as those who decide see it.
#pragma once

#include <memory>

#include "square/status.h"
#include "square/v1/controller.pb.h"

namespace square::controller {

// Thread-safe; the methods do not block.
class NodeLine {
 public:
  virtual ~NodeLine() = default;
  // Events arrive in order; those after close() are dropped.
  virtual void send(std::shared_ptr<const v1::ControllerEvent> event) = 0;
  // Tells the node why and ends the line; `at_once` also if it does not read what was sent before.
  // Must not be called under a lock that the line's callbacks take.
  virtual void close(Status reason, bool at_once) = 0;
};

}  // namespace square::controller
