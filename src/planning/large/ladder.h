// Levels of max-min, one after another, each with its proof.
#pragma once

#include <vector>

#include "planning/exact/proof.h"
#include "planning/large/mixture.h"
#include "square/clock.h"

namespace square::planning {

struct Ladder {
  std::vector<ProvenLevel> levels;
  std::vector<double> rate;  // by group, bits per second: what its level allows, or a little less
  bool thorough = false;     // ways that are quickly found were not enough for some level
  bool late = false;         // who was active then has what it had, in the last level
};

struct ClimbOptions {
  // Those that have stopped are asked to make room for this part of their rates, so that lengths are about
  // what stops the others. Their levels are wrong by about as much, times what they have beside those.
  double room = 0.02;
  double steepness = 300.0;  // of lengths, for which 1 / room is little
  TimePoint until;
};

// Makes the active groups' rates w t as large as they can be while those that have stopped keep nearly
// theirs, stops those that the lengths charge, and so on until all have stopped or the time is over. t is
// found by Newton's method: lengths that prove that the rates of the moment are too large by so much also say
// which are not (Dinkelbach, Management Science 13, 1967). `have`: rates that can be had, from where it
// starts. `known`: its first levels, whose groups have stopped with what they have. Precondition: the mixture
// has a way for each group that sends.
Ladder climb(const Instance& instance, Mixture& mixture, const std::vector<double>& have,
             const ClimbOptions& options, std::vector<ProvenLevel> known = {});

// Moves and looks for ways, thoroughly or not, until the fullest resource is about as little full as it can
// be, under lengths of up to this steepness; or until that time.
void settle(Mixture& mixture, double steepness, TimePoint until, bool thorough = false);

}  // namespace square::planning
