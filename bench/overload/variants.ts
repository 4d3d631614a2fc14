export const UNPROTECTED = 'unprotected'
export const FIXED = 'fixed limit, first come first served'
export const OURS = 'headgate'
