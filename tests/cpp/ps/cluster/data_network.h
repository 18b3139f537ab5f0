// The data flow between simulated processes: whole transfers, which take their time and break.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ps/cluster/shared_links.h"
#include "square/executor.h"
#include "square/simulation.h"
#include "square/status.h"

namespace square::test {

// Single-threaded. A transfer begins once both ends have asked for it, and is one array of floats.
class DataNetwork {
 public:
  using Values = std::vector<float>;

  explicit DataNetwork(Simulation& simulation) : simulation_(simulation) {}

  // What ends there runs on the executor; null: the process is no more, its transfers break.
  void set_process(const std::string& host, Executor* executor);
  void set_blocked(const std::string& one, const std::string& other, bool is_blocked);
  void set_rate(const std::string& host, double floats_per_second) { rates_[host] = floats_per_second; }
  // Transfers share the links of their hosts, instead of each having a rate of its own.
  void share_links(double floats_per_second) {
    links_ = std::make_unique<SharedLinks>(simulation_, floats_per_second);
  }

  void send(const std::string& key, const std::string& from, const std::string& to, Values values,
            std::function<void(Status)> done);
  void receive(const std::string& key, const std::string& from, const std::string& to,
               std::function<void(Result<Values>)> done);
  // Ends it on both sides.
  void cancel(const std::string& key);

 private:
  // Who waits for the other end, or for a line that is cut, waits no longer than this.
  static constexpr Duration kTimeout = std::chrono::seconds(2);
  struct Transfer {
    std::string from;
    std::string to;
    std::optional<Values> values;
    std::function<void(Status)> sent;
    std::function<void(Result<Values>)> received;
    bool is_moving = false;
    std::uint64_t number = 0;
  };
  Transfer& transfer(const std::string& key, const std::string& from, const std::string& to);
  void begin(const std::string& key);
  void arrive(const std::string& key, std::uint64_t number);
  void fail(const std::string& key, const Status& reason);
  [[nodiscard]] double rate(const std::string& host) const;

  Simulation& simulation_;
  std::unique_ptr<Executor> clockwork_ = simulation_.make_executor();
  std::map<std::string, Executor*> processes_;
  std::map<std::string, double> rates_;
  std::map<std::pair<std::string, std::string>, bool> blocked_;
  std::map<std::string, Transfer> transfers_;
  std::unique_ptr<SharedLinks> links_;  // null: they are not shared
  std::uint64_t last_ = 0;
};

}  // namespace square::test
