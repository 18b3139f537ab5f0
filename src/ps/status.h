// What a master says of itself, and what snapshots say of rounds, as users see it.
#pragma once

#include "square/parameter_server.h"
#include "square/v1/parameter_server.pb.h"

namespace square::ps {

RoundPush to_push(const v1::PsPushed& pushed);
MasterStatus to_status(const v1::PsAnswer& answer);

}  // namespace square::ps
