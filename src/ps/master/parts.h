// The parts of a master, for those who do something with several of them.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "ps/master/chunks.h"
#include "ps/master/desk.h"
#include "ps/master/lines.h"
#include "ps/master/members.h"
#include "ps/master/pulls.h"
#include "ps/master/pushes.h"
#include "ps/master/rounds.h"

namespace square::ps {

struct MasterParts {
  MasterParts(Desk given, Rounds::Events events)
      : desk(std::move(given)),
        chunks(desk.settings.chunks),
        lines(desk),
        pushes(desk, members, lines),
        pulls(desk, members, lines, last_ticket),
        rounds(desk, members, chunks, std::move(events)) {}
  MasterParts(const MasterParts&) = delete;
  MasterParts& operator=(const MasterParts&) = delete;

  Desk desk;
  Members members;
  Chunks chunks;
  Lines lines;
  std::uint64_t last_ticket = 0;
  Pushes pushes;
  Pulls pulls;
  Rounds rounds;
};

}  // namespace square::ps
