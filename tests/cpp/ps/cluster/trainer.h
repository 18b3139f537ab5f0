// A worker in a simulation. It trains on chunks that each leave a mark of their own in the parameters, so
// that an oracle sees what counted, and how often.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
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
  std::vector<std::pair<std::uint64_t, std::vector<float>>> adopted;  // versions as they were taken over
  Duration longest_stop{0};
  std::uint64_t steps = 0;
};

class Trainer final : public LineOwner, public ps::ParameterHost {
 public:
  static constexpr float kMark = 0.25F;
  static constexpr int kStepsBetweenPushes = 4;

  // `model`: as many elements as there are chunks. Parameters are all zeros at first.
  Trainer(std::string name, v1::PsModel model, DataNetwork& data, ControlLines& lines, Executor& executor,
          const Clock& clock, TrainerLog& log, std::uint64_t seed);
  ~Trainer() override { *alive_ = false; }

  void on_attached() override { state_.on_attached(); }
  void on_order(const v1::PsOrder& order) override { state_.on_order(order); }
  void on_detached() override { state_.on_detached(); }

  void send_push(const v1::PsTransfer& transfer, Done done) override;
  void take_version(const v1::PsTransfer& transfer, Done done) override;
  void cancel(std::uint64_t ticket) override;

  // The next push is not finite.
  void spoil() { is_spoilt_ = true; }
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
