// What a node's host gives it: files, memory, the network's settings.
#pragma once

#include "collective/examination/json.h"

namespace square::examination {

// Adds "host", "limits" and "network".
void add_host(Json& report);

}  // namespace square::examination
