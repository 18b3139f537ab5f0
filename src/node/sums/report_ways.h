// How a report of a sum travels: in line behind blocks, and what must not wait for them, ahead.
#pragma once

#include "node/links/outgoing_link.h"
#include "node/plan/installed_collective.h"
#include "square/frame.h"

namespace square {

// Where blocks on the stream wait for credit, a report behind them may wait for ever: it can be the
// root's knowing who has called, and under which cut and plan, that lets them go. So a copy that says
// this, and nothing of what was sent before it, goes ahead of them. True if that was all it said: then
// it need not stand in line, too. So does one that tells of a lost link: what it would wait behind may wait
// for what was lost. Else it does nothing on a stream that has credit.
bool hasten_report(OutgoingLink& link, const StreamKey& key, const Frame& report);

// In line, and hastened. On a stream that is gone it is dropped.
void pass_report(OutgoingLink& link, const StreamKey& key, Frame report);

}  // namespace square
