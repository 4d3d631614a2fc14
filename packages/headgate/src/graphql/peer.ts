/** The one place where `graphql` is needed at run time, as a peer that whoever has a schema has installed. */
export { GraphQLError, parse } from 'graphql'
