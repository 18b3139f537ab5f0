// Members that come, and come back; and the version that training begins with.
#pragma once

#include <map>
#include <string>

#include "ps/master/departures.h"

namespace square::ps {

// Not thread-safe.
class Admission {
 public:
  Admission(MasterParts& parts, Outcomes& outcomes, Departures& departures)
      : parts_(parts), outcomes_(outcomes), departures_(departures) {}

  void on_hello(PeerId peer, const v1::PsHello& hello);
  // Where no version is known: what servers have, or the first that a worker brings, once it is time. To be
  // called now and then.
  void find_version();
  // The first version is there.
  void on_seeded();
  // Those that have not been, and can be.
  void welcome_servers();
  // A server without a shard: it drops what it has, and gets one of that layout.
  void admit(ServerEntry& server, const v1::PsLayout& layout);

  // What it waits for before it trains, in words; empty: it trains.
  [[nodiscard]] std::string waits_for() const;

 private:
  Status check(PeerId peer, const v1::PsHello& hello) const;
  void refuse(PeerId peer, const Status& reason);
  void on_server_hello(PeerId peer, const v1::PsHello& hello);
  void on_worker_hello(PeerId peer, const v1::PsHello& hello);
  void seed();
  void found();
  // Of early_, those whose workers are not connected.
  void forget_lost_workers();
  // A worker knows of a version, so there is one, and no new training begins.
  [[nodiscard]] bool is_known_to_workers();
  void welcome(ServerEntry& server);
  void welcome(WorkerEntry& worker, const v1::PsWorkerHello& hello);
  [[nodiscard]] bool must_start_over(const WorkerEntry& worker, const v1::PsWorkerHello& hello);
  void settle_open_push(WorkerEntry& worker, const v1::PsWorkerHello& hello);
  [[nodiscard]] v1::PsOrder welcome_order() const;

  MasterParts& parts_;
  Outcomes& outcomes_;
  Departures& departures_;
  // Hellos of workers that came before there was a version.
  std::map<std::string, v1::PsWorkerHello> early_;
  std::string trouble_;  // why there is no version, though servers are there
};

}  // namespace square::ps
