// Operations on a group, as one member sees them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "square/compression.h"
#include "square/flight_record.h"
#include "square/group.h"
#include "square/member_host.h"
#include "square/status.h"

namespace square {

class CompositeCalls;
class FlightRecorder;
class GroupCalls;
class OpenWorks;

// How far an operation has come, as far as this process knows: all its parts together.
struct WorkProgress {
  GroupCall call;                        // kNone: a message
  std::optional<OperationId> message{};  // its number, if it is one
  Epoch epoch{0};                        // see CallProgress, of the newest part
  std::optional<TimePoint> first_byte{};
  std::optional<TimePoint> last_byte{};
  // The first part that is not over; its node can describe() it.
  std::optional<std::pair<CollectiveId, OperationId>> open{};

  void add(const WorkProgress& part);
};

// An operation that runs. Thread-safe.
class Work {
 public:
  virtual ~Work() = default;
  // Blocks until the operation is over and returns its outcome. It ends by itself
  // within its timeout plus DataPlane::kDrainTime.
  virtual Status wait() = 0;
  // Blocks until it is over or `timeout` passed, and says which.
  virtual bool wait_for(Duration timeout) = 0;
  [[nodiscard]] virtual bool is_done() const = 0;
  // `notify` runs once when it is over, at once if it is already: on the thread that ends it, so it
  // must not block.
  virtual void on_done(std::function<void()> notify) = 0;
  // Who sent what a receive from any source got, once that is known; otherwise none.
  [[nodiscard]] virtual std::optional<Rank> source() const { return std::nullopt; }
  // What compression did to what this member gave, once a compressed operation is over and well; otherwise
  // none.
  [[nodiscard]] virtual std::optional<CompressionReport> compression_report() const { return std::nullopt; }
  [[nodiscard]] virtual WorkProgress progress() const { return {}; }
  // Ends it on every member, unless it is over. Does not block: wait() returns soon.
  virtual void cancel() = 0;
};

// An asynchronous call returns at once, also where its node has no room for it: it waits, in order, up to
// 2^20 of them; one more is refused with RESOURCE_EXHAUSTED, counts for nothing, and may be made again.
// Timeouts count from the call.
//
// All members must call the same operations in the same order. After a failure every
// later call fails with FAILED_PRECONDITION and the first cause: make a new group.
// Thread-safe; must not outlive its node.
class Communicator {
 public:
  static constexpr Duration kDefaultTimeout = std::chrono::minutes(5);
  static constexpr Duration kCloseTimeout = std::chrono::seconds(10);

  // Registers the group with the controller and waits for a plan. `rank` lives on
  // `node`, which is in this process (Node) or a gateway that it attached to. Errors: INVALID_ARGUMENT
  // for a rank that is not of this node; those of ControllerClient::register_group(). Where this rank was
  // closed under a group of that name, waits until all other ranks were. Blocks for `timeout` at most.
  static Result<std::unique_ptr<Communicator>> create(MemberHost& node, GroupSpec group, Rank rank,
                                                      Duration timeout = kDefaultTimeout);
  // As close(), and waits for nothing: what runs goes on, but for what the communicator itself calculates,
  // and this member's part ends with it.
  ~Communicator();

  // Later calls fail with FAILED_PRECONDITION, at once. Waits for what this member has called, `timeout` at
  // most, and ends on every member what is not over then: DEADLINE_EXCEEDED. Then this member has left the
  // group. When all have, or have ended otherwise, the group is no more, and its name is free. What others
  // still begin with this member fails on them. Blocks for `timeout` and 2 kDrainTime at most; not in a
  // notice of an end. Idempotent.
  Status close(Duration timeout = kCloseTimeout);

  // The same group without the members that are gone: those that have left it, or whose processes are no
  // more. Every other member calls it, also where this group has failed; the controller answers all at once,
  // with the same members, in the order of their ranks. A member that does neither, a paused one say, is
  // waited for. What this member has called here ends first, and once the new group is there this one is
  // closed. Where the nodes bring their controllers and members may live that nobody hears, more than half of
  // all must be here, or half with the lowest rank: others may go on elsewhere. With `allow_minority`, which
  // all must say, any may; then two groups may go on that know nothing of each other. Errors:
  // DEADLINE_EXCEEDED with the names of who is awaited: it may be called again; FAILED_PRECONDITION where the
  // others took this member for dead and went on, or may have while its process was stopped; those of
  // create(). Blocks for `timeout` at most.
  Result<std::unique_ptr<Communicator>> shrink(Duration timeout = kDefaultTimeout,
                                               bool allow_minority = false);
  // As shrink(), and so many others join behind them, in the order of their nodes' names.
  Result<std::unique_ptr<Communicator>> grow(std::uint32_t joiners, Duration timeout = kDefaultTimeout);
  // The other end of grow(): joins the group of that name, which is what it was called when it was made.
  // Errors: DEADLINE_EXCEEDED where nobody takes joiners; those of create(). Blocks for `timeout` at most.
  static Result<std::unique_ptr<Communicator>> join(MemberHost& node, const std::string& group,
                                                    Duration timeout = kDefaultTimeout);

  [[nodiscard]] Rank rank() const;
  [[nodiscard]] std::size_t size() const;
  // Of the group; one that shrinks or grows gets another.
  [[nodiscard]] const std::string& name() const;
  // The group that it was before, if it was one.
  [[nodiscard]] const GroupOrigin& origin() const;

  // What this member has called last, kFlightRecorderOperations at most. The node says what operations wait
  // for: blocks for `patience` at most. Not in a notice of an end.
  [[nodiscard]] FlightRecord flight_record(Duration patience = DataPlane::kDrainTime) const;
  // From now on writes it to `folder` with the group's first error, before the program gets the error; with
  // `follows`, now and at the group's end, too. Errors: those of FlightRecordFolder::write().
  Status write_flight_records(std::shared_ptr<FlightRecordFolder> folder, bool follows);
  // Writes it there now and returns the file's path. Blocks as flight_record() does.
  Result<std::string> write_flight_record(FlightRecordReason reason = FlightRecordReason::kAsked,
                                          Duration patience = DataPlane::kDrainTime) const;

  // Copies the root's `data` to every member's. All sizes must be equal; zero is
  // allowed. `data` must stay valid until the work is done. Blocks only where `root`
  // has no plan yet: it is registered first. `elements`: what the root's are. Only where the policy codes
  // with floats (docs/coding.md) does it matter: kFloat32 may come back rounded, all else never does.
  Result<std::shared_ptr<Work>> broadcast_async(std::span<std::byte> data, Rank root,
                                                Duration timeout = kDefaultTimeout,
                                                ElementType elements = ElementType::kBytes);
  // The same, and waits. Errors: see DataPlane::post().
  Status broadcast(std::span<std::byte> data, Rank root, Duration timeout = kDefaultTimeout,
                   ElementType elements = ElementType::kBytes);

  // Adds every member's `input`, element by element, into the root's `output`. Every call
  // under one plan adds in the same order, so the bits are the same. Input and output may be
  // the same memory. `output` is ignored elsewhere. Errors: INVALID_ARGUMENT for a type
  // that cannot be added, a size that is not a multiple of the element's, sizes that differ;
  // those of DataPlane::post().
  Result<std::shared_ptr<Work>> reduce_async(std::span<const std::byte> input, std::span<std::byte> output,
                                             Reduction reduction, Rank root,
                                             Duration timeout = kDefaultTimeout);
  Status reduce(std::span<const std::byte> input, std::span<std::byte> output, Reduction reduction, Rank root,
                Duration timeout = kDefaultTimeout);

  // The same into every member's `output`; all have the same bits. `algorithm`: as the plan says, which
  // is the faster one, or a ring, where every rank sends to the next one only. A ring's order of
  // additions is that of the ranks, whatever the plan, so its bits never change. It is calculated on a
  // thread of the communicator, one ring after the other; RESOURCE_EXHAUSTED if more than 2^20 wait.
  // It ends with the communicator.
  Result<std::shared_ptr<Work>> all_reduce_async(std::span<const std::byte> input,
                                                 std::span<std::byte> output, Reduction reduction,
                                                 Duration timeout = kDefaultTimeout,
                                                 AllReduceAlgorithm algorithm = AllReduceAlgorithm::kPlanned);
  Status all_reduce(std::span<const std::byte> input, std::span<std::byte> output, Reduction reduction,
                    Duration timeout = kDefaultTimeout,
                    AllReduceAlgorithm algorithm = AllReduceAlgorithm::kPlanned);

  // The sum or average of float32, with fewer bytes on the links: docs/compression.md says what becomes of
  // the elements. All members ask for the same compression; kNone is a planned all_reduce. All get the same
  // bits. Input and output may be the same memory. With error feedback `residual` has as many elements: what
  // this member did not send so far, zeros at first; it is added to the input, and holds what was not sent
  // when the work is over. Without, it is empty. Runs on the communicator's thread, as a ring does.
  // Errors: INVALID_ARGUMENT for other types or operations, a compression that cannot be
  // (check_compression()), another residual, members that called it otherwise; DATA_LOSS for what no
  // member can have sent; those of all_reduce_async().
  Result<std::shared_ptr<Work>> compressed_all_reduce_async(std::span<const std::byte> input,
                                                            std::span<std::byte> output, Reduction reduction,
                                                            const Compression& compression,
                                                            std::span<float> residual = {},
                                                            Duration timeout = kDefaultTimeout);
  // The same, and waits.
  Result<CompressionReport> compressed_all_reduce(std::span<const std::byte> input,
                                                  std::span<std::byte> output, Reduction reduction,
                                                  const Compression& compression,
                                                  std::span<float> residual = {},
                                                  Duration timeout = kDefaultTimeout);

  // In what follows all members pass one buffer for every rank, in rank order, where there
  // are several, and what one sends has the size of what the other gets. Sizes may differ
  // from rank to rank; zero is allowed. Buffers stay valid until the work is done. What a
  // member gives to itself is copied by the call. Errors, besides those of DataPlane::post():
  // INVALID_ARGUMENT for another number of buffers, or a rank that there is not.

  // Every member's `input` into everybody's outputs[its rank], where it may be already. `elements`: as of a
  // broadcast.
  Result<std::shared_ptr<Work>> all_gather_async(std::span<const std::byte> input,
                                                 const std::vector<std::span<std::byte>>& outputs,
                                                 Duration timeout = kDefaultTimeout,
                                                 ElementType elements = ElementType::kBytes);
  Status all_gather(std::span<const std::byte> input, const std::vector<std::span<std::byte>>& outputs,
                    Duration timeout = kDefaultTimeout, ElementType elements = ElementType::kBytes);

  // Adds everybody's inputs[r] into the output of rank r, as reduce() does. `output` may be
  // this member's own input.
  Result<std::shared_ptr<Work>> reduce_scatter_async(const std::vector<std::span<const std::byte>>& inputs,
                                                     std::span<std::byte> output, Reduction reduction,
                                                     Duration timeout = kDefaultTimeout);
  Status reduce_scatter(const std::vector<std::span<const std::byte>>& inputs, std::span<std::byte> output,
                        Reduction reduction, Duration timeout = kDefaultTimeout);

  // inputs[r] goes to rank r, outputs[r] comes from it. They do not overlap, except that what
  // the member gives to itself may be in its place.
  Result<std::shared_ptr<Work>> all_to_all_async(const std::vector<std::span<const std::byte>>& inputs,
                                                 const std::vector<std::span<std::byte>>& outputs,
                                                 Duration timeout = kDefaultTimeout);
  Status all_to_all(const std::vector<std::span<const std::byte>>& inputs,
                    const std::vector<std::span<std::byte>>& outputs, Duration timeout = kDefaultTimeout);

  // Every member's `input` into the root's outputs; they are ignored elsewhere.
  Result<std::shared_ptr<Work>> gather_async(std::span<const std::byte> input,
                                             const std::vector<std::span<std::byte>>& outputs, Rank root,
                                             Duration timeout = kDefaultTimeout);
  Status gather(std::span<const std::byte> input, const std::vector<std::span<std::byte>>& outputs, Rank root,
                Duration timeout = kDefaultTimeout);

  // The root's inputs[r] into the output of rank r; inputs are ignored elsewhere.
  Result<std::shared_ptr<Work>> scatter_async(const std::vector<std::span<const std::byte>>& inputs,
                                              std::span<std::byte> output, Rank root,
                                              Duration timeout = kDefaultTimeout);
  Status scatter(const std::vector<std::span<const std::byte>>& inputs, std::span<std::byte> output,
                 Rank root, Duration timeout = kDefaultTimeout);

  // A message to one member. Messages between two members with the same tag arrive in their
  // order; those with different tags do not wait for one another. Every pair and tag is a
  // session of its own: use few tags. Done when the other has it.
  static constexpr std::uint32_t kMaxTag = (std::uint32_t{1} << 31U) - 1;
  Result<std::shared_ptr<Work>> send_async(std::span<const std::byte> data, Rank to, std::uint32_t tag = 0,
                                           Duration timeout = kDefaultTimeout);
  Status send(std::span<const std::byte> data, Rank to, std::uint32_t tag = 0,
              Duration timeout = kDefaultTimeout);
  Result<std::shared_ptr<Work>> receive_async(std::span<std::byte> data, Rank from, std::uint32_t tag = 0,
                                              Duration timeout = kDefaultTimeout);
  Status receive(std::span<std::byte> data, Rank from, std::uint32_t tag = 0,
                 Duration timeout = kDefaultTimeout);
  // The same from whichever member's message with the tag comes first: see Work::source().
  Result<std::shared_ptr<Work>> receive_any_async(std::span<std::byte> data, std::uint32_t tag = 0,
                                                  Duration timeout = kDefaultTimeout);
  Result<Rank> receive_any(std::span<std::byte> data, std::uint32_t tag = 0,
                           Duration timeout = kDefaultTimeout);

  // Done when every member has called it.
  Result<std::shared_ptr<Work>> barrier_async(Duration timeout = kDefaultTimeout);
  Status barrier(Duration timeout = kDefaultTimeout);

 private:
  explicit Communicator(std::shared_ptr<GroupCalls> calls);
  Result<std::unique_ptr<Communicator>> go_on(std::uint32_t joiners, Duration timeout, bool allow_minority);
  // Nothing that this member has called runs any more, but for what cannot be ended.
  void end_works();

  std::shared_ptr<GroupCalls> calls_;  // shared with receives from any source
  std::shared_ptr<OpenWorks> works_;
  std::shared_ptr<FlightRecorder> recorder_;
  std::unique_ptr<CompositeCalls> composite_;
};

}  // namespace square
