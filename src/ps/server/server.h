// A server: keeps a shard of the model, and does what the master says.
//
// A state machine: the line to the master and its orders go in, reports and work come out.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ps/server/shard_host.h"

namespace square::ps {

struct ServerIdentity {
  std::string name;
  std::string node;
  std::uint64_t incarnation = 0;
  double capacity_bps = 0;  // 0: unknown
};

// Not thread-safe; must not outlive its host, nor be destroyed while the host has work of it.
class ServerState {
 public:
  static constexpr std::size_t kMaxWaitingOrders = 65'536;

  // `send` says something on the line that is attached; `failed` hears why it can serve no more.
  ServerState(ServerIdentity identity, ShardHost& host, std::function<void(v1::PsReport)> send,
              std::function<void(Status)> failed);

  // A line to a master is there. It is greeted once it is known what there is to say of.
  void on_attached();
  void on_order(const v1::PsOrder& order);
  // Orders are void, and nothing more is said to that master.
  void on_detached();

  [[nodiscard]] std::uint64_t version() const { return version_; }
  // Has been welcomed, and has opened its version.
  [[nodiscard]] bool serves() const { return serves_; }

 private:
  void hello();
  void carry_out(const v1::PsOrder& order);
  // Of a round, while another one is not over here yet.
  [[nodiscard]] bool must_wait(const v1::PsOrder& order) const;
  void carry_out_waiting();
  void on_welcome(const v1::PsWelcome& welcome);
  void on_opened(const Status& status);
  void take_push(const v1::PsTransfer& transfer);
  void send_version(const v1::PsTransfer& transfer);
  void average(const v1::PsAverage& average);
  void make(const v1::PsMake& make);
  void move(const v1::PsMove& move);
  // Of what make() and move() begin.
  std::function<void(Result<MadeVersion>)> when_made(std::uint64_t round);
  // What is taken for it does not come any more.
  void give_up_move();
  void on_made(std::uint64_t round, const Result<MadeVersion>& made);
  void abort(std::uint64_t round);
  void drop_made(std::uint64_t round);
  // To the master of that line alone.
  void report(std::uint64_t line, v1::PsReport report);

  const ServerIdentity identity_;
  ShardHost& host_;
  const std::function<void(v1::PsReport)> send_;
  const std::function<void(Status)> failed_;
  std::uint64_t line_ = 0;  // counts lines
  bool is_attached_ = false;
  bool is_greeted_ = false;
  bool serves_ = false;
  bool is_opening_ = false;
  std::uint64_t openings_ = 0;  // that were begun
  bool is_dropping_ = false;
  std::deque<v1::PsOrder> waiting_;
  std::uint64_t version_ = 0;
  std::uint64_t making_ = 0;               // the version; 0: none
  std::vector<std::uint64_t> takes_;       // tickets, where it is a move
  std::optional<std::uint64_t> to_abort_;  // the round, once what is being made is made
};

}  // namespace square::ps
