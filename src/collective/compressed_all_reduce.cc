#include "collective/compressed_all_reduce.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "coding/compression/top_k.h"
#include "collective/compressed_sums.h"

namespace square {
namespace {

constexpr const char* kName = "compressed all_reduce";

// The composite operation's work, and what it reports.
class CompressedWork final : public Work {
 public:
  CompressedWork(std::shared_ptr<Work> work, std::shared_ptr<const CompressedRun> run)
      : work_(std::move(work)), run_(std::move(run)) {}

  Status wait() override { return work_->wait(); }
  bool wait_for(Duration timeout) override { return work_->wait_for(timeout); }
  [[nodiscard]] bool is_done() const override { return work_->is_done(); }
  void on_done(std::function<void()> notify) override { work_->on_done(std::move(notify)); }
  void cancel() override { work_->cancel(); }
  [[nodiscard]] WorkProgress progress() const override { return work_->progress(); }
  [[nodiscard]] std::optional<CompressionReport> compression_report() const override {
    if (!work_->is_done() || !work_->wait().is_ok()) return std::nullopt;
    return run_->report();
  }

 private:
  const std::shared_ptr<Work> work_;
  const std::shared_ptr<const CompressedRun> run_;
};

Status check_types(const Reduction& reduction) {
  if (reduction.type != ElementType::kFloat32) {
    return invalid_argument(
        fmt::format("{} of {}: only float32 is compressed", kName, to_string(reduction.type)));
  }
  if (reduction.op != ReduceOp::kSum && reduction.op != ReduceOp::kAverage) {
    return invalid_argument(
        fmt::format("{} by {}: only sum and average are compressed", kName, to_string(reduction.op)));
  }
  return Status::ok();
}

Status check_residual(const CompressedSum& sum) {
  const std::size_t count = sum.input.size() / sizeof(float);
  const bool wanted = sum.compression.error_feedback;
  if (sum.residual.size() == (wanted ? count : 0)) return Status::ok();
  const std::string text = to_string(sum.compression);
  if (!wanted) {
    return invalid_argument(
        fmt::format("{} keeps no residual: leave it out, or ask for \"{}:feedback\"", text, text));
  }
  return invalid_argument(
      fmt::format("{} keeps what it does not send: a residual of {} elements is needed, not of {}; the "
                  "same one in every call for the same elements, zeros at first; or ask for no feedback",
                  text, count, sum.residual.size()));
}

Status check_sum(const CompressedSum& sum) {
  SQUARE_RETURN_IF_ERROR(check_compression(sum.compression));
  SQUARE_RETURN_IF_ERROR(check_types(sum.reduction));
  if (sum.input.size() % sizeof(float) != 0 || sum.input.size() != sum.output.size()) {
    return invalid_argument(fmt::format("{} of {} bytes into {}: both must be the same number of float32",
                                        kName, sum.input.size(), sum.output.size()));
  }
  SQUARE_RETURN_IF_ERROR(check_residual(sum));
  if (sum.compression.kind == CompressionKind::kTopK &&
      sum.input.size() / sizeof(float) > compression::kMostTopKElements) {
    return invalid_argument(fmt::format("top-k of {} elements: at most {}", sum.input.size() / sizeof(float),
                                        compression::kMostTopKElements));
  }
  return Status::ok();
}

// First one of all members: through it they hear of a failure.
std::vector<GroupCollective> collectives_of(const GroupCalls& group, const CompressedSum& sum) {
  std::vector<GroupCollective> all;
  const std::uint64_t size_bytes = sum.input.size();
  if (sum.compression.kind == CompressionKind::kBfloat16) {
    all.resize(1);
    all.front().op = CollectiveOp::kAllReduce;
    all.front().channel = kCompressedChannel;
    all.front().size_bytes = size_bytes / 2;
    return all;
  }
  const std::uint64_t part_bytes = size_bytes / sizeof(float) / group.size();
  for (const Rank root : group.ranks()) {
    all.emplace_back();
    all.back().root = root;
    all.back().channel = kCompressedChannel;
    all.back().size_bytes = part_bytes;
  }
  if (sum.compression.kind == CompressionKind::kTopK) return all;
  for (const Rank from : group.ranks()) {
    for (const Rank to : group.ranks()) {
      if (to == from) continue;
      all.push_back(unicast(from, to, kCompressedChannel));
      all.back().size_bytes = part_bytes;
    }
  }
  return all;
}

std::shared_ptr<CompressedRun> make_run(const GroupCalls& group, const CompressedSum& sum) {
  switch (sum.compression.kind) {
    case CompressionKind::kBfloat16: return std::make_shared<Bfloat16Run>(group.rank(), group.size(), sum);
    case CompressionKind::kInt8: return std::make_shared<Int8Run>(group.rank(), group.size(), sum);
    case CompressionKind::kTopK: return std::make_shared<TopKRun>(group.rank(), group.size(), sum);
    case CompressionKind::kNone: break;
  }
  SQUARE_CHECK(false, "a compressed all-reduce without compression");
}

}  // namespace

Result<std::shared_ptr<Work>> compressed_all_reduce(GroupCalls& group, CompositeCalls& calls,
                                                    const CompressedSum& sum, Duration timeout) {
  SQUARE_RETURN_IF_ERROR(check_sum(sum));
  const std::shared_ptr<CompressedRun> run = make_run(group, sum);
  SQUARE_ASSIGN_OR_RETURN(auto work, calls.start({kName, CallKind::kCompressedAllReduce, timeout,
                                                  collectives_of(group, sum), run}));
  return std::shared_ptr<Work>(std::make_shared<CompressedWork>(std::move(work), run));
}

}  // namespace square
