// How a program's memory serves large transfers. For programs only: a library must not
// change what belongs to the whole process.
#pragma once

namespace square {

// Has the allocator keep freed memory for the next allocation, up to the most that was ever in
// use, instead of giving buffers of a MiB back to the kernel and asking for new, zeroed ones
// each time. Call it once, early in main(). Changes nothing, and returns false, where the
// allocator has no such setting.
bool tune_process_memory();

// Gives what is freed, by any thread, back to the kernel. Takes a millisecond for each 50 MiB or so, during
// which other threads wait for memory. Returns whether anything was given back.
bool trim_process_memory();

}  // namespace square
