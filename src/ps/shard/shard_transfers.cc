// What a shard sends and receives.
#include <fmt/format.h>

#include <limits>
#include <utility>

#include "base/check.h"
#include "ps/shard/shard.h"

namespace square::ps {
namespace {

// A version's parts, from memory or from its file; one transfer's.
class VersionReader {
 public:
  VersionReader(const Versions& versions, Snapshots& snapshots, VersionId id, v1::PsShard range)
      : versions_(versions),
        snapshots_(snapshots),
        id_(id),
        range_(std::move(range)),
        pin_(snapshots.pin(id)) {}

  Status read(std::size_t index, std::span<float> out, const std::stop_token& stop) {
    SQUARE_ASSIGN_OR_RETURN(const bool is_copied, versions_.copy_part(id_, index, out, stop));
    if (is_copied) return {};
    if (file_ == nullptr) {
      SQUARE_ASSIGN_OR_RETURN(file_, SnapshotFile::open(snapshots_.path(id_)));
    }
    const v1::PsShard& shard = file_->header().shard();
    if (shard.begin() != range_.begin() || shard.end() != range_.end()) {
      return not_found(fmt::format("{} is of another shard", to_string(id_)));
    }
    return file_->read_parameters(index, out);
  }

 private:
  const Versions& versions_;
  Snapshots& snapshots_;
  const VersionId id_;
  const v1::PsShard range_;
  const Snapshots::Pin pin_;
  std::shared_ptr<const SnapshotFile> file_;
};

}  // namespace

Status Shard::check_range(const v1::PsTransfer& transfer) const {
  if (is_stopped_) return cancelled("the server stops");
  if (transfer.shard().begin() == model_.shard.begin() && transfer.shard().end() == model_.shard.end()) {
    return {};
  }
  return invalid_argument(fmt::format("elements {} to {} of the model, where server \"{}\" has {} to {}",
                                      transfer.shard().begin(), transfer.shard().end(), name_,
                                      model_.shard.begin(), model_.shard.end()));
}

Shard::VersionParts Shard::parts_of_version(const VersionId& id, const v1::PsShard& range) {
  return [reader = std::make_shared<VersionReader>(versions_, *snapshots_, id, range)](
             std::size_t index, std::span<float> out, const std::stop_token& stop) {
    return reader->read(index, out, stop);
  };
}

void Shard::take_push(const v1::PsTransfer& transfer, Done<Result<double>> done) {
  drop_push(transfer.ticket());  // one that comes once more
  Status status = check_range(transfer);
  VersionParts current;
  const bool has_deltas = transfer.is_seed() || !model_.pushes_parameters;
  if (!has_deltas) {
    const VersionId committed = versions_.committed();
    if (committed == VersionId{}) status = failed_precondition("parameters before the first version");
    current = parts_of_version(committed, model_.shard);
  }
  const bool is_bfloat16 = model_.is_bfloat16 && has_deltas && !transfer.is_seed();
  const ElementType type = is_bfloat16 ? ElementType::kBfloat16 : ElementType::kFloat32;
  if (status.is_ok()) {
    status = transfers_.start(transfer, [this, type, current, done](Transfer& running) {
      post(done, receive(running, type, current));
    });
  }
  if (!status.is_ok()) post<Result<double>>(done, std::move(status));
}

Result<double> Shard::receive(Transfer& transfer, ElementType type, const VersionParts& current) {
  const v1::PsShard& shard = transfer.what().shard();
  SQUARE_ASSIGN_OR_RETURN(const std::shared_ptr<DataLine> line, transfer.open_line());
  auto values = buffer(shard.end() - shard.begin());
  PartReader read;
  if (current) {
    read = [&](std::size_t index, std::span<float> out) { return current(index, out, transfer.stop()); };
  }
  Result<NormOf> norm =
      values.is_ok() ? receive_push(*line, staging_, transfer.what(), type, read, *values) : values.status();
  if (!norm.is_ok()) {
    line->end();
    if (values.is_ok()) keep_spare(std::move(*values));
    return norm.status();
  }
  transfer.release_line();
  {
    const std::lock_guard lock(mutex_);
    // Who drops it asks to stop first, and looks for it then.
    if (transfer.stop().stop_requested()) return cancelled("the push was dropped");
    pushes_[transfer.what().ticket()] = std::move(*values);
  }
  return norm->is_finite ? norm->squared : std::numeric_limits<double>::quiet_NaN();
}

void Shard::drop_push(std::uint64_t ticket) {
  transfers_.cancel(ticket);
  const std::lock_guard lock(mutex_);
  pushes_.erase(ticket);
}

void Shard::send_version(const v1::PsTransfer& transfer, Done<Status> done) {
  const VersionId id{transfer.version(), transfer.maker()};
  const bool is_in_memory = id.version != 0 && versions_.has(id);
  const bool is_here = is_in_memory || (id.version != 0 && snapshots_->has(id));
  // One that is on the disk alone may be of the shard before a move: its file says so.
  Status status = is_in_memory || !is_here ? check_range(transfer) : Status();
  if (is_stopped_) status = cancelled("the server stops");
  if (status.is_ok()) {
    const VersionParts parts = is_here ? parts_of_version(id, transfer.shard()) : nullptr;
    status = transfers_.start(transfer,
                              [this, parts, done](Transfer& running) { post(done, send(running, parts)); });
  }
  if (!status.is_ok()) post(done, std::move(status));
}

Status Shard::send(Transfer& transfer, const VersionParts& parts) {
  SQUARE_ASSIGN_OR_RETURN(const std::shared_ptr<DataLine> line, transfer.open_line());
  const v1::PsTransfer& what = transfer.what();
  const PartReader read = [&](std::size_t index, std::span<float> out) {
    return parts(index, out, transfer.stop());
  };
  Status status = parts ? send_parameters(*line, staging_, what, read)
                        : not_found(fmt::format("server \"{}\" has no {}", name_,
                                                to_string({what.version(), what.maker()})));
  if (!status.is_ok()) line->end();  // the worker hears of it
  transfer.release_line();
  return status;
}

}  // namespace square::ps
