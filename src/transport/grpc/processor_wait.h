// How long a thread waited for a processor.
#pragma once

#include "square/clock.h"

namespace square::rpc {

// The calling thread, since it began; 0 where the kernel does not count that.
Duration processor_wait();

}  // namespace square::rpc
