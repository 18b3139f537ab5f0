// Whether the members of a group call the same operations in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "node/operations/operation_key.h"
#include "square/group_call.h"
#include "square/ids.h"
#include "square/status.h"

namespace square {

// What somebody called, as error messages say it.
struct HeardCall {
  GroupCall call;
  std::string who;
  // That it names, where it names one and somebody said it.
  std::optional<Rank> root{};
};
// INVALID_ARGUMENT that names both.
Status different_calls(const HeardCall& one, const HeardCall& other);
Status different_roots(const HeardCall& one, const HeardCall& other);

// Whether all members run the one session that the root of the call has: two roots, two collectives.
bool is_of_one_root(CallKind kind);

// What local members called, while it runs, by group. Used on the node's strand.
class Calls {
 public:
  // `node` is this node's name.
  explicit Calls(std::string node) : node_(std::move(node)) {}

  struct Difference {
    Status cause;
    // What local members called otherwise: it has members that may know of no session of the other.
    std::set<OperationKey> running;
  };
  // Compares what was said of an operation with what local members of the group called: one number,
  // or one operation, where a member has called more or less often than the others. Calls of one kind differ
  // by their roots.
  [[nodiscard]] std::optional<Difference> compare(const std::string& group, const OperationKey& key,
                                                  const HeardCall& heard) const;
  void note(const std::string& group, const OperationKey& key, Rank rank, GroupCall call,
            std::optional<Rank> root = std::nullopt);
  void forget(const std::string& group, const OperationKey& key);

 private:
  struct LocalCall {
    CallKind kind = CallKind::kNone;
    Rank rank;
    std::optional<Rank> root{};
    std::set<OperationKey> running{};
  };
  [[nodiscard]] static bool differs_in_root(const LocalCall& local, const OperationKey& key,
                                            const HeardCall& heard);

  std::string node_;
  std::map<std::string, std::map<std::uint16_t, LocalCall>, std::less<>> calls_;  // by group and number
};

}  // namespace square
