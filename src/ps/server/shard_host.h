// What a server does with its shard, as the protocol sees it: in a process with threads, a disk and lines of
// the data flow, or in a simulation.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ps/protocol.h"

namespace square::ps {

// What became of a version that was made.
struct MadeVersion {
  std::uint64_t hash = 0;
  double update_seconds = 0;
  double snapshot_seconds = 0;
};

// Calls come one at a time; `done` runs later, on the same strand, once.
class ShardHost {
 public:
  template <typename T>
  using Done = std::function<void(T)>;

  virtual ~ShardHost() = default;

  // The versions on the disk, ascending, and the model that they are of.
  virtual std::vector<v1::PsHeld> held() = 0;
  virtual v1::PsModel model() = 0;
  // Goes on from a version that is on the disk, or from none where the welcome names none. What else there is
  // of later versions, on the disk and in memory, is dropped, and so is every push.
  virtual void open(const v1::PsWelcome& welcome, const v1::PsShard& shard, Done<Status> done) = 0;

  // Receives a worker's part of a push, and measures it: its squared norm. Not finite where an element is
  // not.
  virtual void take_push(const v1::PsTransfer& transfer, Done<Result<double>> done) = 0;
  // Also one that still comes: its take_push() ends.
  virtual void drop_push(std::uint64_t ticket) = 0;
  // The weighted average, and its squared norm. The pushes are used up.
  virtual void average(const v1::PsAverage& average, Done<Result<double>> done) = 0;
  // The next version, of the average, or of the seed that it names, or like the one before. When done it is
  // on the disk, and outlives the machine; with an error there is nothing on the disk.
  virtual void make(const v1::PsMake& make, Done<Result<MadeVersion>> done) = 0;
  // The next version, in another layout: of what is here already and of what is taken from others, which get
  // their parts meanwhile. Then as make(). A cancel() of what is taken ends it.
  virtual void move(const v1::PsMove& move, Done<Result<MadeVersion>> done) = 0;
  // What was made is the newest now, and the shard that of its layout.
  virtual void commit(std::uint64_t version) = 0;
  // What was made is gone, from the disk too, when done. Nothing was made: done at once.
  virtual void drop_made(Done<Status> done) = 0;

  // Sends the shard of a version: one that is committed, or as it is made.
  virtual void send_version(const v1::PsTransfer& transfer, Done<Status> done) = 0;
  virtual void cancel(std::uint64_t ticket) = 0;
};

}  // namespace square::ps
