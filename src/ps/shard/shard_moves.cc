// How a shard becomes another range of the model.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "ps/layout.h"
#include "ps/shard/shard.h"

namespace square::ps {

void Shard::move(const v1::PsMove& move, Done<Result<MadeVersion>> done) {
  if (is_stopped_) return post<Result<MadeVersion>>(done, cancelled("the server stops"));
  const v1::PsShard* const shard = shard_of(move.record().layout(), name_);
  if (shard == nullptr || shard->end() < shard->begin() || shard->end() > kMaxElements) {
    return post<Result<MadeVersion>>(
        done, invalid_argument(fmt::format("a move that has no shard for server \"{}\"", name_)));
  }
  // One more source: this server.
  auto gathering = Gathering::create(*shard, static_cast<std::size_t>(move.takes_size()) + 1);
  if (!gathering.is_ok()) return post<Result<MadeVersion>>(done, gathering.status());
  next_shard_ = *shard;
  const auto moving =
      std::make_shared<Moving>(Moving{versions_.committed(), *shard, make_order(move.record(), *shard),
                                      std::move(*gathering), std::move(done)});
  Status status = begin_takes(move, moving);
  for (const v1::PsTransfer& transfer : move.gives()) {
    if (!status.is_ok()) break;
    status = transfers_.start(transfer, [this, begin = model_.shard.begin()](Transfer& running) {
      (void)give(running, begin);  // who takes it says what becomes of it
    });
  }
  if (!status.is_ok()) {
    for (const v1::PsTransfer& transfer : move.takes()) transfers_.cancel(transfer.ticket());
  }
  if (moving->gathering->end_source(status)) strand_.post([this, moving] { on_gathered(moving); });
}

Status Shard::begin_takes(const v1::PsMove& move, const std::shared_ptr<Moving>& moving) {
  Status status;
  for (const v1::PsTransfer& transfer : move.takes()) {
    const v1::PsShard both = overlap(transfer.shard(), moving->shard);
    if (both.begin() != transfer.shard().begin() || both.end() != transfer.shard().end()) {
      status = invalid_argument("a move of elements that are not of the new shard");
    }
    const auto end_source = [this, moving](const Status& outcome) {
      if (moving->gathering->end_source(outcome)) strand_.post([this, moving] { on_gathered(moving); });
    };
    if (status.is_ok()) {
      status = transfers_.start(transfer, [this, moving, end_source](Transfer& running) {
        auto line = running.open_line();
        Status outcome = line.status();
        if (line.is_ok()) {
          outcome = receive_state(**line, staging_, running.what(), *moving->gathering);
          if (!outcome.is_ok()) (*line)->end();
          running.release_line();
        }
        end_source(outcome);
      });
    }
    if (!status.is_ok()) end_source(status);
  }
  return status;
}

Status Shard::give(Transfer& transfer, std::uint64_t shard_begin) {
  SQUARE_ASSIGN_OR_RETURN(const std::shared_ptr<DataLine> line, transfer.open_line());
  const v1::PsTransfer& what = transfer.what();
  const VersionId id{what.version(), what.maker()};
  const StateReader read = [&](StateArray array, std::uint64_t first, std::span<float> out) {
    if (transfer.stop().stop_requested()) return cancelled("the move was given up");
    return versions_.copy_state(id, array, first - shard_begin, out);
  };
  const Result<StateHead> head = versions_.state_head(id);
  Status status = head.is_ok() ? send_state(*line, staging_, what, *head, read) : head.status();
  if (!status.is_ok()) line->end();  // who takes it hears of it
  transfer.release_line();
  return status;
}

void Shard::on_gathered(const std::shared_ptr<Moving>& moving) {
  if (const Status status = moving->gathering->status(); !status.is_ok()) return moving->done(status);
  if (is_stopped_) return moving->done(cancelled("the server stops"));
  moving->order.shard = [this, moving, before = model_.shard, outer = model_.outer] {
    return put_together(*moving, before, outer);
  };
  maker_.make(std::move(moving->order),
              [this, moving](Result<MadeVersion> made) { post(moving->done, std::move(made)); });
}

Result<OuterShard> Shard::put_together(Moving& moving, const v1::PsShard& before, const Nesterov& outer) {
  const v1::PsShard kept = overlap(before, moving.shard);
  const bool keeps = moving.from != VersionId{} && kept.end() > kept.begin();
  if (keeps) {
    SQUARE_ASSIGN_OR_RETURN(const StateHead head, versions_.state_head(moving.from));
    SQUARE_RETURN_IF_ERROR(moving.gathering->begin(head));
    for (const StateArray array :
         {StateArray::kParameters, StateArray::kMomentum, StateArray::kAccumulator}) {
      if (array == StateArray::kAccumulator && !head.has_accumulator) continue;
      SQUARE_RETURN_IF_ERROR(
          versions_.copy_state(moving.from, array, kept.begin() - before.begin(),
                               moving.gathering->room(array, kept.begin(), kept.end() - kept.begin())));
    }
  } else if (!moving.gathering->head() && moving.from != VersionId{}) {
    // Nothing of it was and is here: an empty shard counts rounds all the same.
    SQUARE_ASSIGN_OR_RETURN(const StateHead head, versions_.state_head(moving.from));
    SQUARE_RETURN_IF_ERROR(moving.gathering->begin(head));
  }
  return OuterShard::restore(moving.gathering->finish(), outer);
}

}  // namespace square::ps
