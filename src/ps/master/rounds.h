// Rounds of the outer optimizer: which pushes become a version, and whether it counts. A move is a round too:
// it makes a version of the one before, in another layout.
//
// A version counts once it is on the disk of every server of its layout. Only then is it committed, and only
// what is committed is adopted. While a server that may have written it is away, nobody knows: the round is
// in doubt, until one server says that it has not got it, or all that they have (presumed abort: Mohan,
// Lindsay and Obermarck, "Transaction Management in the R* Distributed Database Management System", 1986).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ps/master/chunks.h"
#include "ps/master/members.h"
#include "ps/master/pushes.h"

namespace square::ps {

// One at a time. Not thread-safe.
class Rounds {
 public:
  // What others do about it.
  struct Events {
    // Its version begins to be made: workers can receive what is ready of it.
    std::function<void(const v1::PsRecord& record)> on_making;
    std::function<void(const v1::PsRecord& record)> on_committed;
    // Its pushes are lost; `version` is what it would have been.
    std::function<void(std::vector<Push> pushes, std::uint64_t version, const Status& reason)> on_skipped;
  };

  // Rounds, and pushes in them, that are remembered: what a status has is bounded.
  static constexpr std::size_t kLongestHistory = 64;
  static constexpr int kPushesInHistory = 8192;

  Rounds(Desk& desk, Members& members, const Chunks& chunks, Events events);

  // A push that all servers have.
  void add(Push push);
  // The first parameters of all: version 1.
  void begin_seed(Push push);
  // Another layout: `orders` are for its servers, by name, without round and record. Precondition: is_free().
  void begin_move(const v1::PsLayout& layout, std::map<std::string, v1::PsMove> orders);
  // Begins what is due, ends what takes too long.
  void on_time();

  // These ignore servers that have no shard in the round's layout.
  void on_averaged(const ServerEntry& server, const v1::PsAveraged& averaged);
  void on_made(ServerEntry& server, const v1::PsMade& made);
  void on_dropped(const ServerEntry& server, const v1::PsDropped& dropped);
  // What servers have taken into memory is gone with one of them.
  void on_server_lost(const ServerEntry& server);
  // It is back, and `held` says what it has.
  void on_server_back(const ServerEntry& server);

  // Another master's version was found on all servers.
  void restore(const v1::PsRecord& record);
  void forget(const std::string& worker) { penalty_.forget(worker); }

  [[nodiscard]] bool is_idle() const { return phase_ == Phase::kIdle; }
  // Idle, and no push waits.
  [[nodiscard]] bool is_free() const { return is_idle() && waiting_.empty(); }
  // What waits is in a round soon.
  [[nodiscard]] bool is_window_open() const { return window_end_.has_value(); }
  void skip_waiting(const Status& reason);
  [[nodiscard]] bool is_moving() const { return !is_idle() && is_move_; }
  // Pushes that wait for their round, and those in it.
  [[nodiscard]] std::vector<Push*> open_pushes();
  [[nodiscard]] Push* push_of(const std::string& worker);
  [[nodiscard]] std::uint64_t skipped() const { return skipped_; }
  // A step takes much longer than in the last round.
  [[nodiscard]] bool is_slow() const;
  // Whether its version counts is not known, and what servers have of it decides.
  [[nodiscard]] bool is_in_doubt() const { return phase_ == Phase::kAborting; }
  // The newest that were made, ascending.
  [[nodiscard]] const std::deque<v1::PsRound>& history() const { return history_; }

 private:
  enum class Phase : std::uint8_t { kIdle, kAveraging, kMaking, kAborting };

  [[nodiscard]] bool is_due() const;
  [[nodiscard]] Duration grace() const;
  // As many pushes as can come: workers die, and the last chunks may be in fewer.
  [[nodiscard]] std::size_t quorum() const;
  void open_window();
  void begin();
  void average(const Judgement& judgement);
  [[nodiscard]] v1::PsRecord new_record(const Judgement& judgement) const;
  void make();
  // A server of the version that is made has it on its disk.
  void note_made(const ServerEntry& server, std::uint64_t hash);
  void commit();
  // `is_certain`: a server has not got it, or there is nothing yet to have.
  void abort(const Status& reason, bool is_certain);
  void finish_abort();
  void end();
  void remember();
  [[nodiscard]] const v1::PsLayout& layout() const { return desk_.committed.record.layout(); }
  void tell_servers(const v1::PsLayout& layout, const v1::PsOrder& order);

  Desk& desk_;
  Members& members_;
  const Chunks& chunks_;
  const Events events_;
  Penalty penalty_;
  std::vector<Push> waiting_;
  std::optional<TimePoint> window_end_;

  Phase phase_ = Phase::kIdle;
  std::uint64_t number_ = 0;
  TimePoint since_{};
  Duration usual_step_{0};
  std::vector<Push> pushes_;                   // of the round
  std::optional<Penalty> candidate_;           // what the penalty will be
  std::map<std::string, double> averaged_;     // squared norms, by server
  std::map<std::string, std::uint64_t> made_;  // hashes, by server that has it on its disk
  v1::PsRecord record_;                        // what will be committed
  bool is_move_ = false;
  Status reason_;  // of the abort
  std::uint64_t skipped_ = 0;
  std::deque<v1::PsRound> history_;
  int pushes_in_history_ = 0;
};

}  // namespace square::ps
