// Ends operations of which members call something else than others.
#pragma once

#include <string>
#include <string_view>

#include "node/aborts/failures.h"
#include "node/groups/calls.h"
#include "node/groups/groups.h"
#include "node/operations/open_operations.h"
#include "square/data_plane.h"
#include "square/frame.h"

namespace square {

// What members called is compared before anything else that they said. All tests are false, and the
// operations fail, if members differ. Used on the node's strand.
class Agreement {
 public:
  // `node` is this node's name.
  Agreement(const std::string& node, Groups& groups, OpenOperations& operations, Failures& failures)
      : calls_(node), groups_(groups), operations_(operations), failures_(failures) {}

  // A member here calls: compared with what local members called, and with what was heard before.
  bool on_call(const OperationKey& key, const MemberOperation& member);
  // A member elsewhere said with a frame what it called.
  bool on_frame(const OperationKey& key, Operation& operation, const FrameHeader& header,
                std::string_view from);
  // The operation is over.
  void forget(const OperationKey& key) { calls_.forget(groups_.look(key.collective).group, key); }

 private:
  bool compare(const OperationKey& key, const HeardCall& heard);
  bool compare_heard(const OperationKey& key, GroupCall call);

  Calls calls_;
  Groups& groups_;
  OpenOperations& operations_;
  Failures& failures_;
};

}  // namespace square
