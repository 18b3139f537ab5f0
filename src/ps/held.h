// Checks of hellos and of snapshots' headers, before a master or a server uses them.
#pragma once

#include <span>
#include <string>

#include "ps/protocol.h"

namespace square::ps {

// Errors: INVALID_ARGUMENT for a record that no master makes: no version, a layout whose shards are not the
// model's elements one behind the other, moves or chunks out of order.
Status check_record(const v1::PsRecord& record, const v1::PsModel& model);
// Errors: INVALID_ARGUMENT for a hello without a role or of more than kMaxHelloBytes, a model that cannot be,
// a version that check_record() refuses; FAILED_PRECONDITION for another protocol.
Status check_hello(const v1::PsHello& hello);

// The newest of these versions that has a part for the server; null: none has.
const v1::PsRecord* newest_part(std::span<const v1::PsHeld> held, const std::string& server);
// The server has kept a part of the model in versions that counted. An attempt that never counted leaves
// less: a first version, or a single one that gave the server its part. Layouts only grow, so a later version
// of the same training without a part for this server contradicts its disk.
bool keeps_part(std::span<const v1::PsHeld> held, const std::string& server);

}  // namespace square::ps
