// A worker in a simulation. It trains on chunks that each leave a mark of their own in the parameters, so
// that an oracle sees what counted, and how often.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ps/cluster/control_lines.h"
#include "ps/cluster/data_network.h"
#include "ps/worker/worker.h"
#include "world/draw.h"

namespace square::test {

// What a worker pushed, and when it last did a step: for the oracle.
struct TrainerLog {
  // By incarnation and number.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<float>> pushed;
  // Of these it was told that they do not count.
  std::set<std::pair<std::uint64_t, std::uint64_t>> void_pushes;
  std::vector<std::pair<std::uint64_t, std::vector<float>>> adopted;  // versions as they were taken over
  Duration longest_stop{0};
  std::uint64_t steps = 0;
};

// How long steps are, drawn for each trainer, and how many it does between pushes.
struct TrainerPace {
  Duration shortest_step = std::chrono::milliseconds(30);
  Duration longest_step = std::chrono::milliseconds(60);
  int steps_between_pushes = 4;
  Duration look = std::chrono::milliseconds(10);  // how often it looks whether there is something to do
};

class Trainer final : public LineOwner, public ps::ParameterHost {
 public:
  static constexpr float kMark = 0.25F;

  // `model`: as many elements as there are chunks. Parameters are all zeros at first.
  Trainer(std::string name, v1::PsModel model, DataNetwork& data, ControlLines& lines, Executor& executor,
          const Clock& clock, TrainerLog& log, const TrainerPace& pace, std::uint64_t seed);
  ~Trainer() override { *alive_ = false; }

  void on_attached() override { state_.on_attached(); }
  void on_order(const v1::PsOrder& order) override;
  void on_detached() override { state_.on_detached(); }

  void send_push(const v1::PsTransfer& transfer, Done done) override;
  void take_version(const v1::PsTransfer& transfer, Done done) override;
  void cancel(std::uint64_t ticket) override;

  // The next push is not finite.
  void spoil() { is_spoilt_ = true; }
  [[nodiscard]] Duration step() const { return step_; }
  [[nodiscard]] bool is_finished() const { return state_.is_finished(); }
  [[nodiscard]] const ps::WorkerState& state() const { return state_; }
  // It was paused: that is no stop of its own.
  void forgive(Duration time) {
    if (last_step_ != TimePoint{}) last_step_ += time;
  }

 private:
  // Does what is next, again and again.
  void live();
  void train();
  void push();
  void adopt(const ps::ReadyVersion& ready);

  const std::string name_;
  const std::uint64_t incarnation_;
  DataNetwork& data_;
  ControlLines& lines_;
  Executor& executor_;
  const Clock& clock_;
  TrainerLog& log_;
  Dice dice_;
  const std::size_t size_;
  const Duration step_;
  const int steps_between_pushes_;
  const Duration look_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  ps::WorkerState state_;

  std::vector<float> parameters_;
  std::vector<float> base_;
  std::vector<float> set_aside_;  // the parameters that were pushed
  std::vector<float> delta_;      // what is pushed
  std::vector<float> staged_;
  std::uint64_t staged_version_ = 0;
  std::map<std::uint64_t, std::string> keys_;
  std::vector<std::uint64_t> chunks_;  // not trained on yet
  int steps_ = 0;
  bool is_spoilt_ = false;
  TimePoint last_step_{};
  TimePoint next_step_{};
};

}  // namespace square::test
