// A node's part of the data plane: executes plans over a transport. square/node.h has the process's node.
//
// A node plays every part at once: it is the source of some sessions, a destination of
// others and a relay for the rest. It is a state machine over three interfaces, Clock,
// Transport and Executor, so the same code runs over gRPC and in a simulation.
// docs/data-plane.md describes blocks, credit, acknowledgement and failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "square/block_sight.h"
#include "square/call_progress.h"
#include "square/clock.h"
#include "square/executor.h"
#include "square/finished_operations.h"
#include "square/group_call.h"
#include "square/ids.h"
#include "square/link_report.h"
#include "square/plan.h"
#include "square/reduction.h"
#include "square/status.h"
#include "square/transport.h"

namespace square {

struct NodeMetrics;  // square/metrics.h
namespace trust {
class GroupKey;
}

struct DataPlaneOptions {
  std::string name;
  // Memory for blocks of others: half for blocks in transit (credit), half for blocks
  // whose local member has not posted its operation yet. A bound, not taken beforehand. At least
  // kMinWindowBytes.
  std::size_t window_bytes = std::size_t{256} << 20U;
  // Tells this process from one that had the node's name before: draw it, not 0.
  std::uint32_t incarnation = 1;
  // Keep to the planned link capacities. Without it, links run as fast as they can.
  bool paced = true;
};
inline constexpr std::size_t kMinWindowBytes = std::size_t{4} << 20U;

// One member's call of a collective on this node.
struct MemberOperation {
  CollectiveId collective;
  // The number of this call on the collective; every member counts its own calls.
  OperationId operation;
  Rank rank;
  // What the member gives and what it gets; both stay valid until `done` runs. A broadcast
  // reads the root's input and writes the others' output. A reduce reads every input and
  // writes the root's output; an all-reduce reads every input and writes every output. Sizes
  // are equal. Input and output may be the same bytes, or else do not overlap: then a byte
  // of the input is overwritten by its final result only. What is not used may be empty.
  std::span<const std::byte> input;
  std::span<std::byte> output;
  // What a reduce or all-reduce adds; all members say the same.
  Reduction reduction;
  // Of what the root of a broadcast gives, if somebody knows: codes of floats carry kFloat32 only, and all
  // else byte by byte.
  ElementType elements = ElementType::kBytes;
  // How many members the collective has, on all nodes: what an average is divided by.
  std::uint32_t group_size = 0;
  // The call of the group that this is part of; members whose calls of one number are of
  // different kinds fail, with what each called.
  GroupCall call;
  // The root that the call names, where members call it with one: those that name another one fail, too.
  std::optional<Rank> call_root{};
  // The root of a broadcast or a reduce.
  bool is_root = false;
  // The call ends with DEADLINE_EXCEEDED after this long.
  Duration timeout = std::chrono::minutes(5);
  // Runs once, on the node's strand, when nothing refers to `data` any more. Must not
  // block. OK: this member has its own result, complete; the root of a broadcast knows that
  // every member has it, a contributor to a reduce that the root has.
  std::function<void(Status)> done;
  // What the node writes of the call while it runs; null where nobody reads it.
  std::shared_ptr<CallProgress> progress{};
};

// Counters since the node started. Bytes are payload unless said otherwise.
struct NodeStatistics {
  std::uint64_t blocks_sent = 0;  // on links, relayed ones included
  std::uint64_t blocks_received = 0;
  std::uint64_t blocks_resent = 0;  // by this node as a source, after a loss
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_delivered = 0;   // into members' buffers
  std::uint64_t bytes_in_transit = 0;  // blocks of others held right now
  std::uint64_t bytes_in_transit_max = 0;
  std::uint64_t frames_refused = 0;  // unknown session, beyond credit, and the like
  std::uint64_t blocks_forged = 0;   // of which: not what their sources have sealed
  // Of which the node remembers something: those of live plans, and of groups that it has not closed.
  std::uint64_t collectives = 0;
  std::uint64_t sessions = 0;
};

// All methods are thread-safe and do not block unless said otherwise.
class DataPlane {
 public:
  // `clock`, `transport` and `executor` must outlive the node, and `executor` must not
  // run tasks of this node after the destructor: stop it first.
  DataPlane(DataPlaneOptions options, const Clock& clock, Transport& transport, Executor& executor);
  ~DataPlane();
  DataPlane(const DataPlane&) = delete;
  DataPlane& operator=(const DataPlane&) = delete;

  [[nodiscard]] const std::string& name() const;

  // Starts the transport. Errors: those of Transport::start().
  Status start();

  // Fails what runs with CANCELLED, sends what answers are waiting, passes on what others send until nothing
  // has come for kLingerTime, and calls `stopped` on the strand when no buffer of a member is in use any
  // more, after kDrainTime at the latest. Later operations fail. Call the transport's stop() next. A second
  // stop() waits for the same.
  void stop(std::function<void()> stopped);
  static constexpr Duration kDrainTime = std::chrono::seconds(1);
  // So that who still waits for the end of an operation has it confirmed over this node, or may ask it again.
  static constexpr Duration kLingerTime = std::chrono::milliseconds(150);

  // Where the other nodes listen; replaces what was known for that name. `incarnation` tells the process that
  // is there from others; 0: nobody knows. Where it was another one before, that is no more, and operations
  // that it was a member of end as by set_gone().
  void set_address(std::string peer, std::string address, std::uint64_t incarnation = 0);

  // The controller says that the node's process is no more: operations that it is a member of end with
  // UNAVAILABLE and its name. Not believed while this node has a link with it that is up, but once the last
  // is lost. `finished` of a node that has left in order, after stop(): operations that it had finished come
  // to their end without it.
  void set_gone(std::string peer, std::string reason,
                std::optional<FinishedOperations> finished = std::nullopt);
  // The controller says that no plan can have these: what runs in their groups ends with FAILED_PRECONDITION
  // and `reason`, and so does what members here call next.
  void set_unplanned(std::vector<CollectiveId> collectives, std::string reason);
  // Calls `report` on the strand with what the members here have finished in collectives that a live plan
  // has.
  void finished(std::function<void(FinishedOperations)> report);
  // The nodes that this one has a link with that is up, as of now.
  [[nodiscard]] std::vector<std::string> heard() const;
  // Calls `report` on the strand with what is wrong with this node's links: now if there is anything, and
  // whenever that changes. Plans had better avoid these links and relays. Broken links are dialled on, and
  // taken back when they have been well for a while; lossy relays are taken back after a while.
  // `has_controller`, on the strand: whether a controller gets the report and judges which nodes are gone.
  // Without one, a neighbour whose host refuses connections for 3 s is gone.
  void report_broken_links(std::function<void(LinkTroubles troubles)> report,
                           std::function<bool()> has_controller = {});
  // The controller asks whether that node is there: it is dialled, and heard() or a report says what came of
  // it.
  void look_for(std::string peer);

  // Calls `report` on the strand with what was seen of blocks that are audited, 1,024 of them at a time at
  // the most: compared with what other nodes say it tells who changes blocks.
  void report_sights(std::function<void(std::vector<BlockSight> sights)> report);

  // What was measured of its links since the last call, and a little of what was before.
  [[nodiscard]] std::vector<LinkReport> take_measured();

  // What the group's blocks are sealed with between the nodes of its members, from its next operation on;
  // forgotten when the group is closed. Call it before its members' first operations: without a key blocks go
  // as they are, and with one nothing else is taken. `group` is its label.
  void set_group_key(std::string group, std::shared_ptr<const trust::GroupKey> key);

  // First phase of a change of plan: get ready to relay and receive under `plan`.
  // `installed` runs on the strand once that is so and no operation of an older plan
  // than the active one runs here, or 2 s later: at most two plans are live. Ignored, with `installed`
  // called, for an epoch that is not newer than those installed.
  void install_plan(std::shared_ptr<const Plan> plan, std::function<void(Epoch)> installed);
  // Second phase: operations that start from now on use this epoch, and broadcasts that run go on at its
  // rates; older plans go once they are not in use. With `moves`, operations that run move to it at once, for
  // their plans use a node that is away. An epoch that is not installed is ignored.
  void activate_plan(Epoch epoch, bool moves = false);

  // Which of a collective's members live on this node, and the group that it belongs to:
  // a failure of one collective poisons all of its group. Must be called before operations
  // are posted. Every local member takes part in every operation.
  void set_members(CollectiveId collective, std::string group, std::vector<Rank> ranks);

  // The members here call nothing more in the group: what they have called goes on, what others begin fails
  // with FAILED_PRECONDITION, watches are told so. Once no live plan knows its collectives the node has
  // forgotten them, and no number of theirs may come again.
  void close_group(std::string group);
  // This member calls nothing more in the group, and others here may: what it has called goes on, what the
  // others call without it fails with FAILED_PRECONDITION on all members.
  void leave_group(std::string group, Rank member);

  // Begins an operation, once its tenant has room for it on this node. Outcomes, all through `done`:
  // INVALID_ARGUMENT for a rank that is not a local member, a session that does not reach this node or a size
  // that differs from the source's; FAILED_PRECONDITION after an earlier failure of the collective, or its
  // group's end; NOT_FOUND if the active plan does not know the collective; DEADLINE_EXCEEDED naming what is
  // missing; UNAVAILABLE naming a member's node that is gone; CANCELLED by stop() or cancel(). What fails on
  // one member fails on all that have not returned yet, with the first cause.
  void post(MemberOperation operation);

  // Ends an operation that runs, on every member, with CANCELLED; otherwise nothing.
  void cancel(CollectiveId collective, OperationId operation);
  // Ends an operation, whether any member has posted it or not, on every member with `cause`; if
  // it is over here, the next one. Nothing if the collective has failed before.
  void fail(CollectiveId collective, OperationId operation, Status cause);

  // Calls `arrived` once, on the strand: with OK when there is an operation that no local member
  // had called or heard of, that is when a local source calls it or the first of its blocks
  // comes, at once if that was before; with DEADLINE_EXCEEDED after `timeout`,
  // FAILED_PRECONDITION once its group has failed, CANCELLED by stop(), RESOURCE_EXHAUSTED for
  // too many watches. Must not block. Dropped with the node.
  void watch(CollectiveId collective, OperationId operation, Duration timeout,
             std::function<void(Status)> arrived);

  // What the operation waits for here, in the words of a DEADLINE_EXCEEDED; empty where it does not run.
  // `receive` runs on the strand.
  void describe(CollectiveId collective, OperationId operation,
                std::function<void(std::string waits_for)> receive);

  // Calls `then` on the strand after `delay`; dropped with the node.
  void after(Duration delay, std::function<void()> then);
  [[nodiscard]] const Clock& clock() const;

  // A snapshot; `receive` runs on the strand.
  void statistics(std::function<void(NodeStatistics)> receive);
  // The same by link, session and tenant; `receive` runs on the strand. Looks at every frame
  // that waits to be sent: for a few calls a second.
  void metrics(std::function<void(NodeMetrics)> receive);

 private:
  class Dispatcher;
  std::unique_ptr<Dispatcher> dispatcher_;
};

}  // namespace square
