import express from 'express'
import fastify from 'fastify'
import { idempotency, redisReplies } from 'headgate/idempotency'
import { Hono } from 'hono'
import { Redis } from 'ioredis'
import Koa from 'koa'

const client = new Redis({ lazyConnect: true })

// #region frameworks
const idempotent = idempotency({ store: redisReplies(client) })

export const onExpress = express().use(idempotent.node) // Nest on Express: app.use(idempotent.node)
export const onKoa = new Koa().use(idempotent.koa)
export const onFastify = fastify().register(idempotent.fastify) // Nest on Fastify: app.register(idempotent.fastify)
export const onHono = new Hono().use(idempotent.hono)
export const onFetch = idempotent.fetch((request: Request) => new Response(`paid for ${request.url}`))
// #endregion

client.disconnect()
