/**
 * Imported by test files that need a process of their own: they measure its memory or descriptors, watch all gateways in
 * it, or exceed the time that a lane allows for a file. The runner gives one to each file with this import.
 */
export {}
