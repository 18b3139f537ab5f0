// What an operation needs of its node.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "node/links/outgoing_link.h"
#include "node/multicast/sealing.h"
#include "node/operations/operation_key.h"
#include "node/plan/installed_collective.h"
#include "square/frame.h"

namespace square {

class OperationHost {
 public:
  virtual ~OperationHost() = default;
  virtual std::map<std::string, std::unique_ptr<OutgoingLink>>& links() = 0;
  // As an installed plan has it since this epoch, and as the active one has it; or none.
  virtual std::shared_ptr<const InstalledCollective> collective_of(CollectiveId collective, Epoch since) = 0;
  virtual std::shared_ptr<const InstalledCollective> active(CollectiveId collective) = 0;
  // What the blocks of a session of the collective are sealed with, whose root is the node `source`.
  [[nodiscard]] virtual Sealing sealing(CollectiveId collective, const std::string& source) const = 0;
  // Sends an answer to the parents of a stream.
  virtual void answer(const LocalStream& stream, Frame frame) = 0;
  // Lets the operations of the stream's session put blocks on it, the oldest first.
  virtual void fill_stream(const StreamKey& key) = 0;
  // Links down that the collective's streams here use, in words that follow others; empty where there is
  // none.
  [[nodiscard]] virtual std::string lost_links(CollectiveId collective) const = 0;
  // The sums of a session begin again, perhaps under a newer plan.
  virtual void on_restart(const OperationKey& key, SessionId session) = 0;
  // The operation failed here first: tell all members. `call`: the group's that it is a part of, so that
  // the parts that are called after this one fail for the same reason.
  virtual void announce_failure(const OperationKey& key, const Status& cause, GroupCall call) = 0;
  // Nothing refers to any buffer any more; members have their outcome.
  virtual void on_finished(const OperationKey& key, const Status& outcome) = 0;
};

}  // namespace square
