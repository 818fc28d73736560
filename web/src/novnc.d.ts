/** What the console uses of noVNC, which ships without types. */
declare module '@novnc/novnc' {
  interface RFBEvents {
    connect: CustomEvent
    disconnect: CustomEvent<{ clean: boolean }>
    securityfailure: CustomEvent<{ status: number; reason?: string }>
    clipboard: CustomEvent<{ text: string }>
    desktopname: CustomEvent<{ name: string }>
  }

  export default class RFB {
    constructor(target: HTMLElement, channel: string | WebSocket, options?: { shared?: boolean })
    scaleViewport: boolean
    focusOnClick: boolean
    viewOnly: boolean
    background: string
    qualityLevel: number
    compressionLevel: number
    addEventListener<K extends keyof RFBEvents>(type: K, listener: (e: RFBEvents[K]) => void): void
    disconnect(): void
    sendCtrlAltDel(): void
    sendKey(keysym: number, code: string | null, down?: boolean): void
    clipboardPasteFrom(text: string): void
    focus(options?: FocusOptions): void
    blur(): void
  }
}
