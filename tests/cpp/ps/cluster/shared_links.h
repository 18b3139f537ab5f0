// What hosts send and receive at once shares their links.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "square/executor.h"
#include "square/simulation.h"

namespace square::test {

// Every host has one link in and one out, of `rate` floats per second each. Each transfer has the smaller of
// equal parts of its two links, as streams of one kind do. Single-threaded.
class SharedLinks {
 public:
  SharedLinks(Simulation& simulation, double rate) : simulation_(simulation), rate_(rate) {}

  // `done` runs when all of it is there.
  void begin(std::uint64_t number, const std::string& from, const std::string& to, double floats,
             std::function<void()> done);
  // Nothing where it is not under way.
  void end(std::uint64_t number);

 private:
  struct Move {
    std::string from;
    std::string to;
    double floats = 0;
    double rate = 0;
    std::function<void()> done;
  };
  // All have moved since the last time; then rates are as they are now.
  void advance();
  void share();

  Simulation& simulation_;
  const double rate_;
  std::unique_ptr<Executor> clockwork_ = simulation_.make_executor();
  std::map<std::uint64_t, Move> moves_;
  std::map<std::string, int> out_;
  std::map<std::string, int> in_;
  TimePoint since_{};
  std::uint64_t plan_ = 0;  // counts what the next end was planned from
};

}  // namespace square::test
