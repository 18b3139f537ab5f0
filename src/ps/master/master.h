// The master: who takes part, which pushes make a version, and when it counts. It has no training data, and
// nothing that its servers do not tell it when it begins anew.
//
// A state machine: reports and time go in, orders come out. docs/parameter-servers.md has the protocol.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ps/master/moves.h"

namespace square::ps {

// Not thread-safe.
class MasterState {
 public:
  // `maker` tells this master from others: drawn, not 0. `send` and `close` may not call back.
  MasterState(TrainingOptions settings, std::uint64_t maker, std::function<void(PeerId, v1::PsOrder)> send,
              std::function<void(PeerId)> close);
  MasterState(const MasterState&) = delete;
  MasterState& operator=(const MasterState&) = delete;

  void on_report(PeerId peer, const v1::PsReport& report, TimePoint now);
  void on_line_lost(PeerId peer, TimePoint now);
  // Many times in a lease.
  void on_time(TimePoint now);

  [[nodiscard]] v1::PsAnswer answer() const;
  [[nodiscard]] const Committed& committed() const { return parts_.desk.committed; }

 private:
  // What members say.
  void on_worker_report(WorkerEntry& worker, const v1::PsReport& report);
  void on_server_report(ServerEntry& server, const v1::PsReport& report);
  void on_push(WorkerEntry& worker, const v1::PsPush& push);
  Status check(const WorkerEntry& worker, const v1::PsPush& push);
  void on_pushes(Pushes::Outcome outcome);
  // Why no push can begin now; empty: it can.
  [[nodiscard]] std::string obstacle() const;
  void on_adopted(WorkerEntry& worker, const v1::PsAdopted& adopted);
  void on_lease(const WorkerEntry& worker, std::uint32_t wanted);

  // What comes of it.
  void on_making(const v1::PsRecord& record);
  void on_committed(const v1::PsRecord& record);
  void on_skipped(const std::vector<Push>& pushes, std::uint64_t version, const Status& reason);

  MasterParts parts_;
  Outcomes outcomes_{parts_};
  Departures departures_{parts_, outcomes_};
  Admission admission_{parts_, outcomes_, departures_};
  Moves moves_{parts_, admission_};
  TimePoint last_beat_{};
  TimePoint last_tick_{};
  bool has_time_ = false;
};

}  // namespace square::ps
