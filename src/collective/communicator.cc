#include "square/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "base/check.h"
#include "collective/any_source.h"
#include "collective/composite_calls.h"
#include "collective/compressed_all_reduce.h"
#include "collective/flight_recorder.h"
#include "collective/group_calls.h"
#include "collective/one_step_calls.h"
#include "collective/open_works.h"
#include "collective/point_to_point.h"
#include "collective/ring_all_reduce.h"

namespace square {
namespace {

// Longer times are as good as this one, and can be added to any clock.
constexpr Duration kLongestWait = std::chrono::hours(24 * 30);

Status check_group(const MemberHost& node, const GroupSpec& group, Rank rank) {
  if (group.nodes.empty()) return invalid_argument(fmt::format("group \"{}\" has no members", group.name));
  if (rank.index() >= group.nodes.size()) {
    return invalid_argument(fmt::format("group \"{}\" has {} members, so no rank {}", group.name,
                                        group.nodes.size(), rank.value()));
  }
  if (group.nodes[rank.index()] != node.name()) {
    return invalid_argument(fmt::format("rank {} of group \"{}\" lives on node \"{}\", not on \"{}\"",
                                        rank.value(), group.name, group.nodes[rank.index()], node.name()));
  }
  return Status::ok();
}

Duration time_until(std::chrono::steady_clock::time_point end) {
  return std::max(Duration(0), Duration(end - std::chrono::steady_clock::now()));
}

Status finish(const Result<std::shared_ptr<Work>>& started) {
  return started.is_ok() ? (*started)->wait() : started.status();
}

FlightRecord about(GroupCalls& group) {
  FlightRecord record;
  record.group = group.name();
  record.number = group.number();
  record.rank = group.rank();
  record.nodes = group.nodes();
  return record;
}

// A call that cannot be, or for which there is no room: the group goes on.
bool is_harmless(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kResourceExhausted;
}

template <typename Buffers>
std::uint64_t largest(const Buffers& buffers) {
  std::size_t size = 0;
  for (const auto& buffer : buffers) size = std::max(size, buffer.size());
  return size;
}

// Begins an operation and keeps a record of it.
template <typename Begin>
Result<std::shared_ptr<Work>> recorded(const std::shared_ptr<FlightRecorder>& recorder, OpenWorks& works,
                                       const FlightCall& call, const Begin& begin) {
  const std::uint64_t id = recorder->called(call);
  Result<std::shared_ptr<Work>> begun = begin();
  if (!begun.is_ok()) {
    recorder->refused(id, begun.status());
    if (!is_harmless(begun.status())) recorder->on_error();
    return begun;
  }
  const std::shared_ptr<Work>& work = *begun;
  recorder->posted(id, work);
  work->on_done([recorder, id, weak = std::weak_ptr(work)] {
    if (const auto ended = weak.lock()) recorder->ended(id, *ended);
  });
  works.add(work);
  return std::shared_ptr<Work>(std::make_shared<RecordedWork>(work, recorder, id));
}

}  // namespace

Communicator::Communicator(std::shared_ptr<GroupCalls> calls)
    : calls_(std::move(calls)),
      works_(std::make_shared<OpenWorks>()),
      recorder_(std::make_shared<FlightRecorder>(about(*calls_))),
      composite_(std::make_unique<CompositeCalls>(calls_)) {}
Communicator::~Communicator() {
  if (calls_->is_forked()) {
    // The parent's threads may hold its locks, nor is the member's part this process's to end.
    static_cast<void>(composite_.release());
    static_cast<void>(new std::shared_ptr<GroupCalls>(std::move(calls_)));
    return;
  }
  calls_->refuse();
  composite_.reset();
  calls_->leave();
  recorder_->on_close();
}

Status Communicator::close(Duration timeout) {
  if (calls_->is_forked()) return calls_->check_usable();
  calls_->refuse();
  const std::size_t late = works_->wait_for_none(std::clamp<Duration>(timeout, Duration(0), kLongestWait));
  end_works();
  calls_->leave();
  if (late == 0) return Status::ok();
  return deadline_exceeded(
      fmt::format("{} operations of the group were under way after {:.3g} s and were cancelled", late,
                  to_seconds(timeout)));
}

void Communicator::end_works() {
  if (works_->wait_for_none(Duration(0)) == 0) return;
  works_->cancel();
  static_cast<void>(works_->wait_for_none(2 * DataPlane::kDrainTime));
}

Result<std::unique_ptr<Communicator>> Communicator::shrink(Duration timeout, bool allow_minority) {
  return go_on(0, timeout, allow_minority);
}

Result<std::unique_ptr<Communicator>> Communicator::grow(std::uint32_t joiners, Duration timeout) {
  return go_on(joiners, timeout, false);
}

Result<std::unique_ptr<Communicator>> Communicator::go_on(std::uint32_t joiners, Duration timeout,
                                                          bool allow_minority) {
  const auto end =
      std::chrono::steady_clock::now() + std::clamp<Duration>(timeout, Duration(0), kLongestWait);
  if (calls_->is_forked()) return calls_->check_usable();
  calls_->refuse();
  end_works();
  SQUARE_ASSIGN_OR_RETURN(auto next, calls_->next_group(joiners, time_until(end), allow_minority));
  auto made = create(calls_->host(), std::move(next.group), next.rank, time_until(end));
  // Only now: a part that has ended is not waited for.
  if (made.is_ok()) calls_->leave();
  return made;
}

Result<std::unique_ptr<Communicator>> Communicator::join(MemberHost& node, const std::string& group,
                                                         Duration timeout) {
  const auto end =
      std::chrono::steady_clock::now() + std::clamp<Duration>(timeout, Duration(0), kLongestWait);
  std::random_device random;
  RegroupRequest request{group, 0, {}, 0, 0};
  while (request.joiner == 0) request.joiner = (std::uint64_t{random()} << 32U) | random();
  SQUARE_ASSIGN_OR_RETURN(GroupSpec next, node.regroup(request, time_until(end)));
  const std::vector<std::uint64_t>& joiners = next.origin.joiners;
  const auto behind = std::ranges::find(joiners, request.joiner) - joiners.begin();
  const Rank rank(static_cast<Rank::value_type>(next.origin.ranks.size()) +
                  static_cast<Rank::value_type>(behind));
  return create(node, std::move(next), rank, time_until(end));
}

FlightRecord Communicator::flight_record(Duration patience) const {
  return recorder_->record(&calls_->host(), patience);
}

Status Communicator::write_flight_records(std::shared_ptr<FlightRecordFolder> folder, bool follows) {
  recorder_->write_to(std::move(folder), follows);
  if (!follows) return Status::ok();
  return recorder_->write(FlightRecordReason::kCreated, nullptr, Duration(0)).status();
}

Result<std::string> Communicator::write_flight_record(FlightRecordReason reason, Duration patience) const {
  return recorder_->write(reason, &calls_->host(), patience);
}

Result<std::unique_ptr<Communicator>> Communicator::create(MemberHost& node, GroupSpec group, Rank rank,
                                                           Duration timeout) {
  SQUARE_RETURN_IF_ERROR(check_group(node, group, rank));
  auto calls = std::make_shared<GroupCalls>(node, std::move(group), rank);
  SQUARE_RETURN_IF_ERROR(calls->enrol(timeout));
  return std::unique_ptr<Communicator>(new Communicator(std::move(calls)));
}

const std::string& Communicator::name() const { return calls_->name(); }
const GroupOrigin& Communicator::origin() const { return calls_->origin(); }
Rank Communicator::rank() const { return calls_->rank(); }
std::size_t Communicator::size() const { return calls_->size(); }

Result<std::shared_ptr<Work>> Communicator::broadcast_async(std::span<std::byte> data, Rank root,
                                                            Duration timeout, ElementType elements) {
  return recorded(recorder_, *works_, {"broadcast", data.size(), root},
                  [&] { return square::broadcast(*calls_, data, elements, root, timeout); });
}

Status Communicator::broadcast(std::span<std::byte> data, Rank root, Duration timeout, ElementType elements) {
  return finish(broadcast_async(data, root, timeout, elements));
}

Result<std::shared_ptr<Work>> Communicator::reduce_async(std::span<const std::byte> input,
                                                         std::span<std::byte> output, Reduction reduction,
                                                         Rank root, Duration timeout) {
  return recorded(recorder_, *works_, {"reduce", input.size(), root},
                  [&] { return square::reduce(*calls_, input, output, reduction, root, timeout); });
}

Status Communicator::reduce(std::span<const std::byte> input, std::span<std::byte> output,
                            Reduction reduction, Rank root, Duration timeout) {
  return finish(reduce_async(input, output, reduction, root, timeout));
}

Result<std::shared_ptr<Work>> Communicator::all_reduce_async(std::span<const std::byte> input,
                                                             std::span<std::byte> output, Reduction reduction,
                                                             Duration timeout, AllReduceAlgorithm algorithm) {
  if (algorithm == AllReduceAlgorithm::kRing)
    return recorded(recorder_, *works_, {"ring all_reduce", input.size()},
                    [&] { return ring_all_reduce(*calls_, *composite_, input, output, reduction, timeout); });
  return recorded(recorder_, *works_, {"all_reduce", input.size()},
                  [&] { return square::all_reduce(*calls_, input, output, reduction, timeout); });
}

Status Communicator::all_reduce(std::span<const std::byte> input, std::span<std::byte> output,
                                Reduction reduction, Duration timeout, AllReduceAlgorithm algorithm) {
  return finish(all_reduce_async(input, output, reduction, timeout, algorithm));
}

Result<std::shared_ptr<Work>> Communicator::compressed_all_reduce_async(
    std::span<const std::byte> input, std::span<std::byte> output, Reduction reduction,
    const Compression& compression, std::span<float> residual, Duration timeout) {
  if (compression.kind == CompressionKind::kNone)
    return recorded(recorder_, *works_, {"all_reduce", input.size()},
                    [&] { return square::all_reduce(*calls_, input, output, reduction, timeout); });
  return recorded(recorder_, *works_, {"compressed all_reduce", input.size()}, [&] {
    return square::compressed_all_reduce(*calls_, *composite_,
                                         {input, output, reduction, compression, residual}, timeout);
  });
}

Result<CompressionReport> Communicator::compressed_all_reduce(std::span<const std::byte> input,
                                                              std::span<std::byte> output,
                                                              Reduction reduction,
                                                              const Compression& compression,
                                                              std::span<float> residual, Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(
      const auto work, compressed_all_reduce_async(input, output, reduction, compression, residual, timeout));
  SQUARE_RETURN_IF_ERROR(work->wait());
  return work->compression_report().value_or(CompressionReport{});
}

Result<std::shared_ptr<Work>> Communicator::all_gather_async(std::span<const std::byte> input,
                                                             const std::vector<std::span<std::byte>>& outputs,
                                                             Duration timeout, ElementType elements) {
  return recorded(recorder_, *works_, {"all_gather", input.size()},
                  [&] { return square::all_gather(*calls_, input, elements, outputs, timeout); });
}

Status Communicator::all_gather(std::span<const std::byte> input,
                                const std::vector<std::span<std::byte>>& outputs, Duration timeout,
                                ElementType elements) {
  return finish(all_gather_async(input, outputs, timeout, elements));
}

Result<std::shared_ptr<Work>> Communicator::reduce_scatter_async(
    const std::vector<std::span<const std::byte>>& inputs, std::span<std::byte> output, Reduction reduction,
    Duration timeout) {
  return recorded(recorder_, *works_, {"reduce_scatter", output.size()},
                  [&] { return square::reduce_scatter(*calls_, inputs, output, reduction, timeout); });
}

Status Communicator::reduce_scatter(const std::vector<std::span<const std::byte>>& inputs,
                                    std::span<std::byte> output, Reduction reduction, Duration timeout) {
  return finish(reduce_scatter_async(inputs, output, reduction, timeout));
}

Result<std::shared_ptr<Work>> Communicator::all_to_all_async(
    const std::vector<std::span<const std::byte>>& inputs, const std::vector<std::span<std::byte>>& outputs,
    Duration timeout) {
  return recorded(recorder_, *works_, {"all_to_all", std::max(largest(inputs), largest(outputs))},
                  [&] { return square::all_to_all(*calls_, inputs, outputs, timeout); });
}

Status Communicator::all_to_all(const std::vector<std::span<const std::byte>>& inputs,
                                const std::vector<std::span<std::byte>>& outputs, Duration timeout) {
  return finish(all_to_all_async(inputs, outputs, timeout));
}

Result<std::shared_ptr<Work>> Communicator::gather_async(std::span<const std::byte> input,
                                                         const std::vector<std::span<std::byte>>& outputs,
                                                         Rank root, Duration timeout) {
  return recorded(recorder_, *works_, {"gather", input.size(), root},
                  [&] { return square::gather(*calls_, input, outputs, root, timeout); });
}

Status Communicator::gather(std::span<const std::byte> input,
                            const std::vector<std::span<std::byte>>& outputs, Rank root, Duration timeout) {
  return finish(gather_async(input, outputs, root, timeout));
}

Result<std::shared_ptr<Work>> Communicator::scatter_async(
    const std::vector<std::span<const std::byte>>& inputs, std::span<std::byte> output, Rank root,
    Duration timeout) {
  return recorded(recorder_, *works_, {"scatter", output.size(), root},
                  [&] { return square::scatter(*calls_, inputs, output, root, timeout); });
}

Status Communicator::scatter(const std::vector<std::span<const std::byte>>& inputs,
                             std::span<std::byte> output, Rank root, Duration timeout) {
  return finish(scatter_async(inputs, output, root, timeout));
}

Result<std::shared_ptr<Work>> Communicator::send_async(std::span<const std::byte> data, Rank to,
                                                       std::uint32_t tag, Duration timeout) {
  return recorded(recorder_, *works_, {"send", data.size(), to, tag},
                  [&] { return square::send(*calls_, data, to, tag, timeout); });
}

Status Communicator::send(std::span<const std::byte> data, Rank to, std::uint32_t tag, Duration timeout) {
  return finish(send_async(data, to, tag, timeout));
}

Result<std::shared_ptr<Work>> Communicator::receive_async(std::span<std::byte> data, Rank from,
                                                          std::uint32_t tag, Duration timeout) {
  return recorded(recorder_, *works_, {"receive", data.size(), from, tag},
                  [&] { return square::receive(*calls_, data, from, tag, timeout); });
}

Status Communicator::receive(std::span<std::byte> data, Rank from, std::uint32_t tag, Duration timeout) {
  return finish(receive_async(data, from, tag, timeout));
}

Result<std::shared_ptr<Work>> Communicator::receive_any_async(std::span<std::byte> data, std::uint32_t tag,
                                                              Duration timeout) {
  return recorded(recorder_, *works_, {"receive", data.size(), {}, tag},
                  [&] { return square::receive_any(calls_, data, tag, timeout); });
}

Result<Rank> Communicator::receive_any(std::span<std::byte> data, std::uint32_t tag, Duration timeout) {
  SQUARE_ASSIGN_OR_RETURN(const auto work, receive_any_async(data, tag, timeout));
  SQUARE_RETURN_IF_ERROR(work->wait());
  return *work->source();
}

Result<std::shared_ptr<Work>> Communicator::barrier_async(Duration timeout) {
  return recorded(recorder_, *works_, {"barrier"}, [&] { return square::barrier(*calls_, timeout); });
}

Status Communicator::barrier(Duration timeout) { return finish(barrier_async(timeout)); }

}  // namespace square
