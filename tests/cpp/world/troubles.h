// What happens where nodes bring their controllers.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "square/clock.h"
#include "world/draw.h"

namespace square::test {

class ControllerProcess;
class Faults;
class World;

// The node whose controller leads, or another one, is killed, stopped or cut off, once groups are there. Now
// and then another follows, before what the first brings about is over.
class Troubles {
 public:
  // What is noted, and taken back, is with `faults`.
  Troubles(World& world, Faults& faults, std::uint64_t seed) : world_(world), faults_(faults), dice_(seed) {}

  void plan();
  // A controller has been woken, which complains of any that leads and that it could have heard.
  void note_wake(const ControllerProcess& woken);

 private:
  void begin();
  void kill(std::size_t site);
  void stop(std::size_t site);
  void split();
  // One of the hosts was stopped, or did not reach the other, later than `since`.
  [[nodiscard]] bool are_apart(const std::string& one, const std::string& other, TimePoint since) const;
  void note_apart(const std::string& host, Duration time);

  World& world_;
  Faults& faults_;
  Dice dice_;
  std::map<std::string, TimePoint> apart_until_;  // hosts that were stopped, or on their own
};

}  // namespace square::test
