// What a version is made of, as its servers keep it.
#pragma once

#include <cstdint>
#include <vector>

#include "ps/master/members.h"
#include "ps/master/pushes.h"

namespace square::ps {

// Of the version after `before`: its number, tokens and pushes, as they were judged, and the last push of
// every worker. Maker, chunks and statistics are the caller's to fill in. A judgement of nothing: for the
// first parameters, and for moves.
v1::PsRecord next_record(const v1::PsRecord& before, const std::vector<Push>& pushes,
                         const Judgement& judgement);
// Of last pushes, where there are too many: those of workers that are gone do not ask any more.
void forget_gone_workers(v1::PsRecord& record, const Members& members);

// Another layout is all that is new in it.
void note_move(v1::PsRecord& record);
// How many rounds of pushes there are from `base` to the record: moves count for nothing.
std::uint64_t rounds_since(const v1::PsRecord& record, std::uint64_t base);

}  // namespace square::ps
